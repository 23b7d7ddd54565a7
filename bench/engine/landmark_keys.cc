#include "bench/engine/landmark_keys.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/engine/workload.h"
#include "engine/engine.h"
#include "engine/step/prepare.h"
#include "model/block_ends.h"
#include "model/text/tokenizer.h"
#include "store/document_store.h"

namespace recollect::bench {
namespace {

using Tokens = std::vector<int32_t>;

// Blocks that an ingest runs at once.
constexpr size_t kSlice = 16;
constexpr int64_t kTokensPerPasskey = 20000, kTokensPerQuote = 20000;

// Keeps the queries that pass through.
class Recorder final : public engine::LandmarkIndex {
 public:
  explicit Recorder(std::shared_ptr<LandmarkIndex> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  absl::StatusOr<std::unique_ptr<engine::LandmarkKeys>> Keep(LargeVector<Bf16> keys) override {
    return inner_->Keep(std::move(keys));
  }
  void Search(std::span<engine::LandmarkQuery> queries) override {
    for (const engine::LandmarkQuery& query : queries) {
      if (query.n > 0) seen.push_back(query.u);
    }
    inner_->Search(queries);
  }
  std::vector<std::vector<float>> seen;

 private:
  const std::shared_ptr<LandmarkIndex> inner_;
};

// An engine whose sessions have something to retrieve from, and what they ask.
class Asker {
 public:
  explicit Asker(engine::LoadedModel model)
      : recorder_(std::make_shared<Recorder>(model.landmarks)) {
    model.landmarks = recorder_;
    auto engine = engine::Engine::Create({}, model, store::CreateMemoryStore());
    Require(engine.status(), "engine");
    engine_ = *std::move(engine);
    std::string text;
    for (int i = 0; i < 200; ++i) absl::StrAppend(&text, "Line ", i, " of a short document.\n");
    IngestText(*engine_, "small", text);
  }

  // The queries of all groups at the landmarks of `prompt`, the one behind it last.
  std::vector<std::vector<float>> Ask(const Tokens& prompt) {
    recorder_->seen.clear();
    engine::RetrieveRequest request;
    request.session_options.mounts = {"small"};
    request.query.tokens = prompt;
    std::promise<absl::Status> done;
    engine_->Retrieve(request, [&](absl::StatusOr<std::vector<engine::Retrieval>> found) {
      done.set_value(found.status());
    });
    Require(done.get_future().get(), "retrieve");
    return recorder_->seen;
  }

 private:
  const std::shared_ptr<Recorder> recorder_;
  std::unique_ptr<engine::Engine> engine_;
};

struct Question {
  QueryKind kind;
  int64_t token;  // of the text: its chunk answers
  Tokens prompt;
};

Tokens Encode(const model::Model& model, const std::string& text) {
  auto tokens = model.tokenizer()->Encode(text);
  Require(tokens.status(), "tokens");
  return *std::move(tokens);
}

}  // namespace

void AddText(const engine::LoadedModel& loaded, const std::string& text, LandmarkSet& set) {
  const model::Model& model = *loaded.model;
  set.d_k = model.config().key_width();
  const int64_t first_chunk = set.chunks();
  std::mt19937_64 random(text.size());
  std::vector<Question> questions;
  const Tokens plain = Encode(model, text);
  Tokens tokens;
  for (int64_t at = 0; at < std::ssize(plain); at += kTokensPerPasskey) {
    const auto end = std::min<int64_t>(at + kTokensPerPasskey, std::ssize(plain));
    tokens.insert(tokens.end(), plain.begin() + at, plain.begin() + end);
    const uint64_t name = random() % 90000 + 10000, code = random() % 9000000 + 1000000;
    const Tokens sentence =
        Encode(model, absl::StrCat(" The code of locker ", name, " is ", code, "."));
    const std::string question =
        absl::StrCat("What is the code of locker ", name, "? The code of locker ", name, " is");
    questions.push_back({QueryKind::kPasskey, std::ssize(tokens) + std::ssize(sentence) / 2,
                         Encode(model, question)});
    tokens.insert(tokens.end(), sentence.begin(), sentence.end());
  }

  auto patterns = engine::IngestPatterns(model, {});
  Require(patterns.status(), "patterns");
  auto encoder = loaded.backend->NewEncoder(*patterns);
  Require(encoder.status(), "encoder");
  std::vector<int64_t> ends;  // of chunks, in tokens
  const int64_t reach = model.config().pointer.reach;
  for (int64_t at = 0; at < std::ssize(tokens);) {
    std::vector<engine::Block> blocks;
    int64_t end = at;
    while (blocks.size() < kSlice && end < std::ssize(tokens)) {
      const int64_t size =
          model::NextBlock(model, std::span(tokens).subspan(static_cast<size_t>(end)), true);
      blocks.push_back(
          std::span(tokens).subspan(static_cast<size_t>(end), static_cast<size_t>(size)));
      end += size;
    }
    auto chunks = (*encoder)->Encode(blocks, /*pause=*/nullptr);
    Require(chunks.status(), "encode");
    for (size_t i = 0; i < blocks.size(); ++i) {
      const int64_t begin = at;
      at += std::ssize(blocks[i]);
      const int64_t from = std::max<int64_t>(0, begin - reach);
      model.AddTokens(
          std::span(tokens).subspan(static_cast<size_t>(from), static_cast<size_t>(at - from)),
          (*chunks)[i]);
      const auto& key = (*chunks)[i].landmark_key;
      set.keys.insert(set.keys.end(), key.begin(), key.end());
      ends.push_back(at);
    }
  }
  for (int64_t at = kTokensPerQuote / 2; at < std::ssize(tokens); at += kTokensPerQuote) {
    const auto chunk = std::upper_bound(ends.begin(), ends.end(), at) - ends.begin();
    const int64_t begin = chunk == 0 ? 0 : ends[static_cast<size_t>(chunk) - 1];
    const int64_t end = begin + (ends[static_cast<size_t>(chunk)] - begin + 1) / 2;
    questions.push_back(
        {QueryKind::kQuote, begin, Tokens(tokens.begin() + begin, tokens.begin() + end)});
  }

  Asker asker(loaded);
  const auto groups = static_cast<int64_t>(model.config().groups.size());
  for (const Question& question : questions) {
    const auto chunk = std::upper_bound(ends.begin(), ends.end(), question.token) - ends.begin();
    const auto asked = asker.Ask(question.prompt);
    for (auto u = asked.end() - groups; u != asked.end(); ++u) {
      set.queries.push_back({question.kind, first_chunk + chunk, *u});
    }
  }
}

void AddReading(const engine::LoadedModel& model, const std::string& text, LandmarkSet& set) {
  set.d_k = model.model->config().key_width();
  for (auto& u : Asker(model).Ask(Encode(*model.model, text))) {
    set.queries.push_back({QueryKind::kRunning, -1, std::move(u)});
  }
}

void Append(const LandmarkSet& set, const std::string& file) {
  const int64_t before =
      std::filesystem::exists(file)
          ? static_cast<int64_t>(std::filesystem::file_size(file)) / (set.d_k * 2)
          : 0;
  std::ofstream keys(file, std::ios::binary | std::ios::app);
  keys.write(reinterpret_cast<const char*>(set.keys.data()),
             static_cast<std::streamsize>(set.keys.size() * sizeof(Bf16)));
  std::ofstream queries(file + ".queries", std::ios::binary | std::ios::app);
  for (const RealQuery& query : set.queries) {
    const int64_t head[] = {static_cast<int64_t>(query.kind),
                            query.gold < 0 ? -1 : query.gold + before};
    queries.write(reinterpret_cast<const char*>(head), sizeof(head));
    queries.write(reinterpret_cast<const char*>(query.u.data()),
                  static_cast<std::streamsize>(query.u.size() * sizeof(float)));
  }
  keys.close();
  queries.close();
  Require(keys && queries ? absl::OkStatus() : absl::UnavailableError(file), "writing");
}

LandmarkSet Load(const std::string& file, int64_t d_k) {
  LandmarkSet set;
  set.d_k = d_k;
  std::ifstream keys(file, std::ios::binary);
  Require(keys ? absl::OkStatus() : absl::NotFoundError(file), "keys");
  set.keys.resize(std::filesystem::file_size(file) / sizeof(Bf16));
  keys.read(reinterpret_cast<char*>(set.keys.data()),
            static_cast<std::streamsize>(set.keys.size() * sizeof(Bf16)));
  std::ifstream queries(file + ".queries", std::ios::binary);
  int64_t head[2];
  while (queries.read(reinterpret_cast<char*>(head), sizeof(head))) {
    RealQuery& query = set.queries.emplace_back();
    query.kind = static_cast<QueryKind>(head[0]);
    query.gold = head[1];
    query.u.resize(static_cast<size_t>(d_k));
    queries.read(reinterpret_cast<char*>(query.u.data()),
                 static_cast<std::streamsize>(query.u.size() * sizeof(float)));
  }
  return set;
}

}  // namespace recollect::bench
