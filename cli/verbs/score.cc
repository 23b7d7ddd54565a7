#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/common/connection.h"
#include "cli/common/json.h"
#include "cli/common/session_options.h"
#include "cli/verbs/verbs.h"

namespace recollect::cli {
namespace {

// A longer text than the first is scored in pieces of at most the second size, one after the other
// in one session. A byte has at most one token, so that neither has too many for a call.
constexpr size_t kWholeBytes = 32768, kPieceBytes = 16384;
constexpr int64_t kFirstRange = 16384;  // tokens; each further range is as long as all before it

struct ScoreOptions {
  SessionFlags session;
  PromptFlags text;
  std::vector<int64_t> flush_after;
  int32_t top_logprobs = 0;
};

// A sum over tokens.
struct Total {
  double nats = 0;
  int64_t scored = 0;  // tokens; the first of a sequence may have no probability
  int64_t bytes = 0;

  double nats_per_token() const { return nats / static_cast<double>(std::max<int64_t>(1, scored)); }
  double bits_per_byte() const {
    return nats / std::log(2.0) / static_cast<double>(std::max<int64_t>(1, bytes));
  }
  void Add(const v1::ScoreResponse& result) {
    nats -= std::accumulate(result.logprobs().begin(), result.logprobs().end(), 0.0);
    // Where no landmark begins a sequence the first token follows nothing and has no probability.
    scored += std::ranges::count_if(result.argmax(), [](int32_t id) { return id >= 0; });
    bytes += result.text_bytes();
  }
};

// Of the tokens [begin, end), to the nearest piece.
struct Range {
  int64_t begin = 0, end = 0;
  Total total;
};

// Where the first piece of `text` ends: behind a line, or a word, or a character, in this order.
size_t PieceEnd(std::string_view text) {
  if (text.size() <= kPieceBytes) return text.size();
  for (const char last : {'\n', ' '}) {
    const size_t at = text.rfind(last, kPieceBytes - 1);
    if (at != std::string_view::npos) return at + 1;
  }
  size_t end = kPieceBytes;
  while ((static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return end;
}

// Appends the second's numbers for each token.
void Append(v1::ScoreResponse& all, const v1::ScoreResponse& piece) {
  const int64_t bytes = all.text_bytes() + piece.text_bytes();
  all.MergeFrom(piece);
  all.set_text_bytes(bytes);
}

absl::StatusOr<v1::ScoreResponse> ScorePieces(client::Client& client, v1::ScoreRequest request,
                                              std::string_view left, std::vector<Range>& ranges) {
  v1::ScoreResponse all;
  while (!left.empty()) {
    const size_t end = PieceEnd(left);
    request.mutable_prompt()->set_text(std::string(left.substr(0, end)));
    left.remove_prefix(end);
    ASSIGN_OR_RETURN(const v1::ScoreResponse piece, client.Score(request));
    const int64_t begin = all.tokens_size();
    if (ranges.empty() || begin >= std::max(2 * ranges.back().begin, kFirstRange)) {
      ranges.push_back({.begin = begin, .end = begin, .total = {}});
    }
    Append(all, piece);
    ranges.back().end = all.tokens_size();
    ranges.back().total.Add(piece);
  }
  return all;
}

absl::StatusOr<v1::ScoreResponse> ScoreInASession(client::Client& client,
                                                  const v1::ScoreRequest& whole,
                                                  std::vector<Range>& ranges) {
  ASSIGN_OR_RETURN(const v1::Session session, client.OpenSession(whole.session()));
  v1::ScoreRequest request;
  request.set_session_id(session.id());
  request.set_top_logprobs(whole.top_logprobs());
  auto all = ScorePieces(client, std::move(request), whole.prompt().text(), ranges);
  const absl::Status closed = client.CloseSession(session.id());
  if (all.ok()) RETURN_IF_ERROR(closed);
  return all;
}

absl::Status Score(const Options& common, const ScoreOptions& options) {
  v1::ScoreRequest request;
  ASSIGN_OR_RETURN(*request.mutable_session(), ToSessionOptions(options.session));
  ASSIGN_OR_RETURN(*request.mutable_prompt(), ToPrompt(options.text));
  const size_t bytes = request.prompt().text().size();
  if (bytes == 0) return absl::InvalidArgumentError("--text: empty, needs text");
  const bool in_pieces = bytes > kWholeBytes && options.flush_after.empty();
  request.mutable_flush_after()->Add(options.flush_after.begin(), options.flush_after.end());
  request.set_top_logprobs(options.top_logprobs);
  ASSIGN_OR_RETURN(const auto connection,
                   Connection::Open(common, request.session().mounts().empty()));
  std::vector<Range> ranges;
  ASSIGN_OR_RETURN(const v1::ScoreResponse result,
                   in_pieces ? ScoreInASession(connection->client(), request, ranges)
                             : connection->client().Score(request));
  Total total;
  total.Add(result);
  if (common.json) {
    Json json = {{"bits_per_byte", total.bits_per_byte()},
                 {"nats_per_token", total.nats_per_token()},
                 {"total_logprob", -total.nats}};
    json.update(ToJson(result));
    if (options.top_logprobs == 0) {
      json.erase("top_ids");
      json.erase("top_logprobs");
    }
    for (const Range& range : ranges) {
      json["ranges"].push_back({{"begin", range.begin},
                                {"end", range.end},
                                {"bits_per_byte", range.total.bits_per_byte()}});
    }
    PrintJson(json);
    return absl::OkStatus();
  }
  absl::PrintF("%d tokens, %d bytes: %.4f bits per byte, %.4f nats per token, perplexity %.2f\n",
               result.tokens_size(), total.bytes, total.bits_per_byte(), total.nats_per_token(),
               std::exp(total.nats_per_token()));
  if (ranges.size() <= 1) return absl::OkStatus();
  absl::PrintF("by position, tokens:\n");
  for (const Range& range : ranges) {
    absl::PrintF("%9d to %9d  %.4f bits per byte\n", range.begin, range.end,
                 range.total.bits_per_byte());
  }
  return absl::OkStatus();
}

}  // namespace

void AddScore(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand("score", "Log probabilities of a given text");
  auto options = std::make_shared<ScoreOptions>();
  AddPromptFlags(*verb, "--text", options->text);
  AddSessionFlags(*verb, options->session);
  verb->add_option("--flush-after", options->flush_after,
                   "Close the block after this many tokens; may be repeated")
      ->type_name("TOKENS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_option("--top-logprobs", options->top_logprobs,
                   "With --json: also so many of the likeliest tokens in each place")
      ->check(CLI::Range(0, 20))
      ->type_name("N");
  verb->footer(absl::StrCat(
      "\nExamples:\n"
      "  recollect score --text 'Call me Ishmael.'\n"
      "  recollect score --mount moby --text-file chapter.txt --json\n\n"
      "A text of any length is scored in one session, each token given all before it. Of one "
      "above ",
      kWholeBytes / 1024,
      " KiB the bits per byte\nare also told by position. With --flush-after it has at most 65536 "
      "tokens.\n",
      kCommonHelp));
  verb->callback([&command, options, verb] {
    RequirePrompt(*verb, "--text");
    command.run = [&command, options] { return Score(command.options, *options); };
  });
}

}  // namespace recollect::cli
