// The input is the body of POST /v1/completions.
#include "tests/fuzz/http_fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  recollect::fuzz::PostJson("/v1/completions", recollect::fuzz::AsText(data, size));
  return 0;
}
