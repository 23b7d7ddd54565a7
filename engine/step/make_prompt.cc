#include "engine/step/make_prompt.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "engine/session/sparse_keys.h"
#include "engine/step/prepare.h"
#include "engine/step/text_retrieval.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

// Tokens of a prompt of text or ids, from its end, by which blocks are found.
constexpr size_t kQueryTokens = 256;
// A follow-up ("and how much did he charge?") is about what the question before it was about, whose
// words therefore count, by this much.
constexpr float kEarlierQuestion = 0.5f;

using Query = std::vector<kernels::SparseTerm>;

Query QueryOf(const model::Model& model, std::span<const int32_t> tokens, float weight = 1) {
  Query query = SparseQuery(*model.words(), tokens.last(std::min(tokens.size(), kQueryTokens)));
  for (kernels::SparseTerm& term : query) term.weight *= weight;
  return query;
}

// Blocks in front of a prompt: their text, and what was found.
struct Passages {
  std::string text;  // empty, or ends with an empty line
  Retrieval retrieval;
};

// Blocks that follow one another in a document are one passage. A block may end inside a character.
absl::StatusOr<std::string> TextOf(store::DocumentReader& store, std::vector<Hit> hits) {
  std::ranges::sort(hits, {}, [](const Hit& hit) { return std::pair(hit.document, hit.chunk); });
  std::string text, passage;
  const auto end_passage = [&] {
    if (passage.empty()) return;
    absl::StrAppend(&text, model::WholeCharacters(std::move(passage)), "\n\n");
    passage.clear();
  };
  for (size_t i = 0; i < hits.size(); ++i) {
    const bool follows =
        i > 0 && hits[i].owner == hits[i - 1].owner && hits[i].text_begin == hits[i - 1].text_end;
    ASSIGN_OR_RETURN(const std::string block,
                     store.ReadText(hits[i].owner, hits[i].text_begin, hits[i].text_end));
    if (!follows) end_passage();
    absl::StrAppend(&passage, block);
  }
  end_passage();
  return text;
}

absl::StatusOr<Passages> FindPassages(const PromptSource& source, const Query& query) {
  const int64_t room = source.text_tokens > 0 ? source.text_tokens : kDefaultTextTokens;
  Passages passages;
  for (const Pin& pin : source.text_mounts) passages.retrieval.candidates += pin->info().chunks;
  // Blocks of documents are rarely shorter than this.
  const int64_t most = room / 16 + 1;
  ASSIGN_OR_RETURN(const std::vector<TextBlock> blocks,
                   RetrieveText(source.store, source.threads, source.text_mounts, query, most));
  int64_t tokens = 0;
  for (const TextBlock& block : blocks) {
    tokens += block.tokens;
    if (tokens > room) break;
    passages.retrieval.hits.push_back(block.hit);
  }
  ASSIGN_OR_RETURN(passages.text, TextOf(source.store, passages.retrieval.hits));
  return passages;
}

// A conversation is a system message, perhaps, and turns: each begins with a question.
class Conversation {
 public:
  Conversation(const model::Model& model, const PromptSource& source,
               std::vector<ChatMessage> messages)
      : model_(model), source_(source), messages_(std::move(messages)) {}

  // Puts each question's passages in front of it.
  absl::Status AddPassages(std::optional<Retrieval>& last) {
    Query earlier;
    for (ChatMessage& message : messages_) {
      if (message.role != ChatRole::kUser) continue;
      ASSIGN_OR_RETURN(const std::vector<int32_t> question,
                       model_.tokenizer()->Encode(message.content));
      Query query = QueryOf(model_, question);
      query.insert(query.end(), earlier.begin(), earlier.end());
      ASSIGN_OR_RETURN(Passages passages, FindPassages(source_, query));
      message.content.insert(0, passages.text);
      last = std::move(passages.retrieval);
      earlier = QueryOf(model_, question, kEarlierQuestion);
    }
    return absl::OkStatus();
  }

  // The tokens of all of it or, if these are more than `room`, of what has room.
  absl::StatusOr<MadePrompt> Render(int64_t room) const {
    const model::ChatTemplate& chat = *model_.chat_template();
    absl::StatusOr<model::RenderedChat> rendered =
        chat.RenderWithEnds(*model_.tokenizer(), messages_);
    if (!rendered.ok()) return Annotate(rendered.status(), "prompt.messages");
    model::RenderedChat whole = *std::move(rendered);
    if (std::ssize(whole.ids) <= room) return MadePrompt{std::move(whole.ids)};
    MadePrompt made;
    made.dropped_messages = MessagesToDrop(whole, room);
    std::vector<ChatMessage> kept(messages_.begin(), messages_.begin() + system());
    kept.insert(kept.end(), messages_.begin() + system() + made.dropped_messages, messages_.end());
    ASSIGN_OR_RETURN(made.tokens, chat.Render(*model_.tokenizer(), kept));
    if (std::ssize(made.tokens) <= room) return made;
    return absl::InvalidArgumentError(
        absl::StrCat("prompt.messages: the last turn has ", made.tokens.size(),
                     " tokens with the system message, the model's context has room for ", room));
  }

 private:
  int64_t system() const { return messages_.front().role == ChatRole::kSystem ? 1 : 0; }

  // Goes through the turns as they came. Where one had no room, the oldest went until a quarter of
  // the room was free, so that the next turns again begin with what has been read.
  int64_t MessagesToDrop(const model::RenderedChat& whole, int64_t room) const {
    const std::vector<int64_t>& ends = whole.message_ends;
    int64_t first = system();  // the first message that is kept
    int64_t dropped = 0;       // tokens
    const auto next_turn = [&](int64_t message) {
      do {
        ++message;
      } while (message < std::ssize(messages_) && !BeginsTurn(message));
      return message;
    };
    for (int64_t turn = first; turn < std::ssize(messages_); turn = next_turn(turn)) {
      const int64_t end = ends[static_cast<size_t>(next_turn(turn) - 1)];
      if (end - dropped + kOpeningTokens <= room) continue;
      while (first < turn && end - dropped + kOpeningTokens > room - room / 4) {
        const int64_t next = next_turn(first);
        dropped += ends[static_cast<size_t>(next - 1)] -
                   (first > 0 ? ends[static_cast<size_t>(first - 1)] : 0);
        first = next;
      }
    }
    return first - system();
  }

  bool BeginsTurn(int64_t message) const {
    return messages_[static_cast<size_t>(message)].role == ChatRole::kUser;
  }

  // The most tokens that open an answer.
  static constexpr int64_t kOpeningTokens = 16;

  const model::Model& model_;
  const PromptSource& source_;
  std::vector<ChatMessage> messages_;
};

absl::StatusOr<MadePrompt> MakeChat(const model::Model& model, const Prompt& prompt,
                                    const PromptSource& source, int64_t answer_tokens) {
  if (model.chat_template() == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("prompt.messages: this model does not chat: ",
                                                      model.chat_template_status().message()));
  }
  Conversation conversation(model, source, prompt.messages);
  std::optional<Retrieval> retrieval;
  if (!source.text_mounts.empty()) RETURN_IF_ERROR(conversation.AddPassages(retrieval));
  const int64_t context = model.config().context;
  ASSIGN_OR_RETURN(MadePrompt made, conversation.Render(context - source.positions -
                                                        std::min(answer_tokens, context / 4)));
  made.retrieval = std::move(retrieval);
  return made;
}

absl::StatusOr<MadePrompt> MakePlain(const model::Model& model, const Prompt& prompt,
                                     const PromptSource& source) {
  MadePrompt made;
  ASSIGN_OR_RETURN(made.tokens, PromptTokens(model, prompt, "prompt", source.continues));
  if (!source.text_mounts.empty()) {
    ASSIGN_OR_RETURN(Passages passages, FindPassages(source, QueryOf(model, made.tokens)));
    ASSIGN_OR_RETURN(const std::vector<int32_t> text, model.tokenizer()->Encode(passages.text));
    made.tokens.insert(made.tokens.begin(), text.begin(), text.end());
    made.retrieval.emplace(std::move(passages.retrieval));
  }
  if (!prompt.text.empty() && source.positions == 0 && !source.continues) {
    if (const auto begin = model.begin_token()) made.tokens.insert(made.tokens.begin(), *begin);
  }
  return made;
}

}  // namespace

absl::StatusOr<MadePrompt> MakePrompt(const model::Model& model, const Prompt& prompt,
                                      const PromptSource& source, int64_t answer_tokens) {
  absl::StatusOr<MadePrompt> made = prompt.messages.empty()
                                        ? MakePlain(model, prompt, source)
                                        : MakeChat(model, prompt, source, answer_tokens);
  if (made.ok() && made->retrieval.has_value()) {
    made->retrieval->as_text = true;
    made->retrieval->position = source.positions + std::ssize(made->tokens);
  }
  return made;
}

}  // namespace recollect::engine
