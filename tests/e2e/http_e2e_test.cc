// OpenAI-style HTTP of the program `recollect`, over the real engine.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/server_testing.h"
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class HttpE2eTest : public ServerTest {
 protected:
  json Send(const std::string& request) const {
    const Socket socket(http_);
    socket.Send(request);
    const std::string answer = socket.ReadAll();
    return json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  }
  json Ask(const std::string& path, const json& fields) const {
    return Send(Post(path, fields.dump()));
  }
  static void SetTokens(v1::GenerateRequest& request, const std::vector<int32_t>& tokens) {
    request.mutable_prompt()->clear_text();
    request.mutable_prompt()->mutable_tokens()->Assign(tokens.begin(), tokens.end());
  }
  // But for the names of fields that HTTP has otherwise, and for max_tokens -1, which it alone has.
  static void ExpectSame(const json& answer, const absl::Status& status) {
    EXPECT_FALSE(status.ok()) << answer;
    const std::string message =
        absl::StrReplaceAll(status.message(), {{"sampling.", ""},
                                               {"prompt.text:", "prompt:"},
                                               {"limit 0 to 65536", "limit -1 to 65536"}});
    EXPECT_EQ(answer["error"]["message"], message);
    EXPECT_EQ(answer["error"]["code"],
              absl::AsciiStrToLower(absl::StatusCodeToString(status.code())));
  }
  json Complete(const json& fields) const { return Ask("/v1/completions", fields); }
};

TEST_F(HttpE2eTest, ACompletionIsTheTextThatGrpcGives) {
  StartHttp();
  ASSERT_EQ(Run({"ingest", "--server", address_, "--id", "d", "-"}, Text(3000)).exit_code, 0);
  v1::GenerateRequest request;
  request.mutable_session()->add_mounts("d");
  request.mutable_prompt()->set_text("under a grey ship");
  request.set_max_tokens(20);
  const auto expected = client_->Generate(request).value();
  const json fields = {{"model", "model"},
                       {"prompt", "under a grey ship"},
                       {"mounts", {"d"}},
                       {"max_tokens", 20},
                       {"temperature", 0}};
  const json answer = Complete(fields);
  EXPECT_EQ(answer["choices"][0]["text"], expected.text);
  EXPECT_EQ(answer["usage"]["completion_tokens"], std::ssize(expected.tokens));

  json echoed = fields;
  echoed["echo"] = true;
  echoed["logprobs"] = 0;
  const json scored = Complete(echoed)["choices"][0];
  EXPECT_EQ(scored["text"], "under a grey ship" + expected.text);
  std::string text;
  for (const json& token : scored["logprobs"]["tokens"]) text += token.get<std::string>();
  EXPECT_EQ(text.substr(0, 17), "under a grey ship");
  EXPECT_EQ(std::ssize(scored["logprobs"]["token_logprobs"]),
            answer["usage"]["prompt_tokens"].get<int64_t>() + std::ssize(expected.tokens));
  for (const json& logprob : scored["logprobs"]["token_logprobs"])
    EXPECT_LE(logprob.get<double>(), 0);
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(HttpE2eTest, RetrieveAndScoreGiveWhatGrpcGives) {
  StartHttp();
  ASSERT_EQ(Run({"ingest", "--server", address_, "--id", "d", "-"}, Text(3000)).exit_code, 0);
  v1::RetrieveRequest retrieve;
  retrieve.mutable_session()->add_mounts("d");
  retrieve.mutable_query()->set_text("under a grey ship");
  retrieve.set_k(3);
  const auto expected = client_->Retrieve(retrieve).value();
  const json found =
      Ask("/v1/retrieve", {{"query", "under a grey ship"}, {"mounts", {"d"}}, {"k", 3}})["data"];
  ASSERT_EQ(std::ssize(found), expected.retrievals_size());
  for (int g = 0; g < expected.retrievals_size(); ++g) {
    const v1::Retrieval& group = expected.retrievals(g);
    EXPECT_EQ(found[g]["group"], group.group());
    EXPECT_EQ(found[g]["position"], group.position());
    EXPECT_EQ(found[g]["candidates"], group.candidates());
    ASSERT_EQ(std::ssize(found[g]["hits"]), group.hits_size());
    for (int i = 0; i < group.hits_size(); ++i) {
      const json& hit = found[g]["hits"][i];
      EXPECT_EQ(hit["document"], "d");
      EXPECT_EQ(hit["chunk"], group.hits(i).chunk());
      EXPECT_EQ(hit["begin"], group.hits(i).text_begin());
      EXPECT_EQ(hit["end"], group.hits(i).text_end());
      EXPECT_EQ(hit["score"].get<float>(), group.hits(i).score());
      EXPECT_EQ(hit["weight"].get<float>(), group.hits(i).weight());
    }
  }

  const json tokens = Ask("/tokenize", {{"prompt", "under a grey ship"}})["tokens"];
  EXPECT_EQ(Ask("/detokenize", {{"tokens", tokens}})["prompt"], "under a grey ship");
  v1::ScoreRequest score;
  score.mutable_session()->add_mounts("d");
  score.mutable_prompt()->set_text("under a grey ship");
  const auto scores = client_->Score(score).value();
  const json scored = Ask("/v1/score", {{"prompt", tokens}, {"mounts", {"d"}}});
  ASSERT_EQ(std::ssize(scored["logprobs"]), scores.logprobs_size());
  for (int i = 0; i < scores.logprobs_size(); ++i) {
    EXPECT_EQ(scored["tokens"][i], scores.tokens(i));
    EXPECT_EQ(scored["logprobs"][i].get<float>(), scores.logprobs(i));
    EXPECT_EQ(scored["argmax"][i], scores.argmax(i));
    EXPECT_EQ(scored["argmax_logprobs"][i].get<float>(), scores.argmax_logprobs(i));
  }
  EXPECT_EQ(StopServer(), 0);
}

// What is refused by one listener is refused by the other, with the same code and the same words.
TEST_F(HttpE2eTest, RefusalsAreThoseOfGrpc) {
  StartHttp();
  ASSERT_EQ(Run({"ingest", "--server", address_, "--id", "d", "-"}, Text(3000)).exit_code, 0);
  using Change = std::function<void(v1::GenerateRequest&)>;
  const std::pair<json, Change> completions[] = {
      {{{"prompt", ""}}, [](auto& r) { r.mutable_prompt()->set_text(""); }},
      {{{"prompt", {5, 1}}},
       [](auto& r) {
         SetTokens(r, {5, 1});
       }},
      {{{"prompt", {5, 123456}}},
       [](auto& r) {
         SetTokens(r, {5, 123456});
       }},
      {{{"prompt", std::string((2 << 20) + 1, 'a')}},
       [](auto& r) { r.mutable_prompt()->set_text(std::string((2 << 20) + 1, 'a')); }},
      {{{"max_tokens", -2}}, [](auto& r) { r.set_max_tokens(-2); }},
      {{{"max_tokens", 65537}}, [](auto& r) { r.set_max_tokens(65537); }},
      {{{"temperature", -0.5}}, [](auto& r) { r.mutable_sampling()->set_temperature(-0.5); }},
      {{{"top_p", 1.5}}, [](auto& r) { r.mutable_sampling()->set_top_p(1.5); }},
      {{{"top_k", -2}}, [](auto& r) { r.mutable_sampling()->set_top_k(-2); }},
      {{{"stop", {""}}}, [](auto& r) { r.add_stop(""); }},
      {{{"mounts", {"e"}}}, [](auto& r) { r.mutable_session()->add_mounts("e"); }},
      {{{"mounts", {""}}}, [](auto& r) { r.mutable_session()->add_mounts(""); }},
      {{{"mounts", {"d", "d"}}},
       [](auto& r) {
         r.mutable_session()->add_mounts("d");
         r.mutable_session()->add_mounts("d");
       }},
      {{{"dilation", 3}}, [](auto& r) { r.mutable_session()->set_dilation(3); }},
      {{{"window", -7}}, [](auto& r) { r.mutable_session()->set_window(-7); }},
      {{{"top_k_blocks", 4}}, [](auto& r) { r.mutable_session()->set_top_k_blocks(4); }},
  };
  for (const auto& [changed, change] : completions) {
    json fields = {{"model", "model"}, {"prompt", "under"}, {"max_tokens", 1}, {"temperature", 0}};
    fields.update(changed);
    v1::GenerateRequest request;
    request.mutable_prompt()->set_text("under");
    request.set_max_tokens(1);
    change(request);
    ExpectSame(Complete(fields), client_->Generate(request).status());
  }
  v1::RetrieveRequest many;
  many.mutable_query()->set_text("under");
  many.set_k(1025);
  ExpectSame(Ask("/v1/retrieve", {{"query", "under"}, {"k", 1025}}),
             client_->Retrieve(many).status());
  v1::ScoreRequest score;
  score.mutable_prompt()->set_text("under");
  score.mutable_session()->add_mounts("e");
  ExpectSame(Ask("/v1/score", {{"prompt", "under"}, {"mounts", {"e"}}}),
             client_->Score(score).status());
  ExpectSame(Send(Get("/v1/documents/e")), client_->GetDocument("e").status());
  ExpectSame(
      Send("DELETE /v1/documents/e HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
      client_->DeleteDocument("e"));
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(HttpE2eTest, WhoTakesThePortOfHttpForGrpcHearsIt) {
  StartHttp();
  const ProcessResult stats = Run({"stats", "--server", http_});
  EXPECT_EQ(stats.exit_code, kUnavailable);
  EXPECT_THAT(stats.err, HasSubstr("HTTP answers at " + http_ + ", but this is a client of gRPC"));
  EXPECT_THAT(stats.err, HasSubstr("--grpc-listen, 127.0.0.1:50051"));
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(HttpE2eTest, APortInUseForOneListenerEndsTheStart) {
  StartHttp();
  const ProcessResult port =
      Run({"serve", "--model", Path("model"), "--data-dir", ":memory:", "--grpc-listen",
           "127.0.0.1:0", "--http-listen", http_});
  EXPECT_EQ(port.exit_code, 7);
  EXPECT_THAT(port.err, HasSubstr("FAILED_PRECONDITION: cannot listen on " + http_));
  EXPECT_EQ(StopServer(), 0);
}

}  // namespace
}  // namespace recollect
