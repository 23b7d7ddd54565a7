// OpenAI-style HTTP of the program `recollect`, over the real engine.
#include <string>

#include "nlohmann/json.hpp"
#include "tests/e2e/server_testing.h"
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class HttpE2eTest : public ServerTest {
 protected:
  json Ask(const std::string& path, const json& fields) const {
    const Socket socket(http_);
    socket.Send(Post(path, fields.dump()));
    const std::string answer = socket.ReadAll();
    return json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
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
