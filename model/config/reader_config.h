// The sizes of the reader of a memory adapter (model/reading.h): "reader" of memory.json.
#pragma once

#include <cstdint>

namespace recollect::model {

// Numbers of a token beside its row: whether its word is one of the question's, and that times the
// word's idf; its idf; ln of its block's weight.
inline constexpr int kReaderMarks = 4;

struct ReaderConfig {
  int width = 0;  // c, of its rows; 0: there is no reader
  int heads = 0;  // of c / heads numbers each
  int layers = 0;
  int64_t ffn = 0;          // inner width of the layers' FFN
  int question_tokens = 0;  // the most rows of a prompt's end that are the question
  int more_blocks = 0;      // the most that it reads besides those that the layers read, and an
                            // opening
  int span_tokens = 0;      // the most of a span
  int spans = 0;            // the most of a reading

  bool exists() const { return width > 0; }
};

}  // namespace recollect::model
