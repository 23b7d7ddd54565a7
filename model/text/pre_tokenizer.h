// Divides text into pre-tokens, the words within which a byte-level BPE merges. Four published
// rules, each a regular expression over Unicode classes (docs/tokenizers.md, "Byte-level BPE").
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"

// Types of PCRE2, whose header stays in the .cc.
struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace recollect::model {

enum class PreTokenizer { kGpt2, kSmollm, kLlamaBpe, kQwen2 };

// Finds a rule by the name that files give it: "gpt-2", "smollm", "llama-bpe", "qwen2", and the
// aliases "gpt2", "llama3" and "llama-v3". INVALID_ARGUMENT lists the four names.
absl::StatusOr<PreTokenizer> PreTokenizerNamed(std::string_view name);
std::string_view PreTokenizerName(PreTokenizer rule);

// The most bytes of the text that a rule looks at from the beginning of a pre-token, as if the text
// ended there: far longer than any word, and the limit of what a stream holds back.
inline constexpr int64_t kMaxPreTokenBytes = int64_t{1} << 20;

struct FreePcre2 {
  void operator()(pcre2_real_code_8* expression) const;
  void operator()(pcre2_real_match_data_8* match) const;
};

// Divides texts by one rule. Immutable; one object serves any number of threads.
class PreTokenSplitter {
 public:
  static absl::StatusOr<PreTokenSplitter> Create(PreTokenizer rule);

  // Walks over one text from its beginning, on one thread. The text, valid UTF-8 but for a last
  // character that is still arriving, and the splitter must outlive the walk. With `final` no text
  // follows.
  class Walk {
   public:
    Walk(const PreTokenSplitter& splitter, std::string_view text, bool final);

    // Returns the next pre-token, or an empty view at the end and where text that may still follow
    // could change the next one. INTERNAL: the regular expression failed.
    absl::StatusOr<std::string_view> Next();

   private:
    const pcre2_real_code_8* const expression_;
    const std::string_view text_;
    const bool final_;
    const size_t complete_;  // bytes of whole characters; all of them where `final_`
    size_t at_ = 0;
    std::unique_ptr<pcre2_real_match_data_8, FreePcre2> match_;
  };

 private:
  explicit PreTokenSplitter(pcre2_real_code_8* expression);
  std::unique_ptr<pcre2_real_code_8, FreePcre2> expression_;
};

}  // namespace recollect::model
