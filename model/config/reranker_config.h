// The sizes of the reranker of a memory adapter (model/reranker.h): "reranker" of memory.json.
#pragma once

namespace recollect::model {

struct RerankerConfig {
  int layers = 0;           // the base's lowest, which it changes and runs; 0: there is no reranker
  int rank = 0;             // of the change of each matrix
  int sentence_tokens = 0;  // the most of a sentence
  int question_tokens = 0;  // the most of a question, the last

  bool exists() const { return layers > 0; }
};

}  // namespace recollect::model
