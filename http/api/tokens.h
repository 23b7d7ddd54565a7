// POST /tokenize and /detokenize, GET /tokenizer_info: with the names of vLLM, which clients of it
// (lm_eval's remote tokenizer) use.
#ifndef RECOLLECT_HTTP_API_TOKENS_H_
#define RECOLLECT_HTTP_API_TOKENS_H_

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

void Tokenize(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);
void Detokenize(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);
void TokenizerInfo(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_TOKENS_H_
