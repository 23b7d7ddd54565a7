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
  void StartHttp() {
    auto arguments = Serve(Path("model"), "auto");
    arguments.insert(arguments.end(), {"--http-listen", "127.0.0.1:0"});
    Start(arguments);
    http_ = ready_.substr(ready_.find(" http=") + 6);
  }
  json Complete(const json& fields) const {
    const Socket socket(http_);
    socket.Send(Post("/v1/completions", fields.dump()));
    const std::string answer = socket.ReadAll();
    return json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  }
  std::string http_;
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
