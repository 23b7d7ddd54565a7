// Serves chats over HTTP from a script, for tests of clients that need no model: the same question
// gets the same answer, which cites two passages of the document "minutes".
//
//   chat_server    prints "ready http=HOST:PORT", then takes commands on stdin and ends with it
//
// plain: answers as above; hang: as far as its first words, then nothing until it is cancelled;
// fail: an error after its first words; drop: as if the two oldest messages had had no room;
// circle: the same words again and again until the engine stops it. Each is acknowledged by its
// name on stdout, and holds for later requests.
#include <cstdio>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/io/log.h"
#include "http/server.h"
#include "tests/support/fake_engine.h"

namespace recollect {
namespace {

constexpr char kFirst[] = "Ishmael takes the minutes at the next meeting.";
constexpr char kSecond[] = "The pump is to be repaired before the winter.";

// Each passage stands between paragraphs that have nothing to do with it.
std::string Minutes() {
  std::string text = "Minutes of the meeting in the harbour office.\n";
  const auto talk = [&](int paragraphs) {
    for (int i = 0; i < paragraphs; ++i)
      absl::StrAppend(&text, "\nPoint ", i + 1,
                      ": the ropes, lamps and sails were counted, and none ",
                      "was missing. Nobody had anything to add to this.\n");
  };
  talk(40);
  absl::StrAppend(&text, "\n", kFirst, "\n");
  talk(60);
  absl::StrAppend(&text, "\n", kSecond, "\n");
  talk(20);
  return text;
}

engine::Hit HitOf(const std::string& text, const std::string& passage, float weight) {
  const auto begin = static_cast<int64_t>(text.find(passage));
  engine::Hit hit;
  hit.document = "minutes";
  hit.chunk = begin / FakeEngine::kChunkBytes;
  hit.score = 3 * weight;
  hit.weight = weight;
  hit.text_begin = begin;
  hit.text_end = begin + std::ssize(passage);
  return hit;
}

FakeEngine::Script ScriptOf(const std::string& command, const std::string& text) {
  FakeEngine::Generation generation;
  generation.pieces = {"At the next meeting ", "Ishmael takes ", "the minutes, ",
                       "and the pump ",        "is to be ",      "repaired."};
  generation.reason = engine::FinishReason::kEos;
  generation.cached_tokens = 3;
  generation.retrievals = {{64, 0, 120, {HitOf(text, kSecond, 0.7f), HitOf(text, kFirst, 0.2f)}},
                           {128, 0, 120, {HitOf(text, kFirst, 0.6f), HitOf(text, kSecond, 0.3f)}}};
  if (command == "hang" || command == "fail") generation.pieces.resize(2);
  if (command == "circle") {
    generation.pieces.assign(6, "Grüße an alle. ");
    generation.reason = engine::FinishReason::kRepetition;
    generation.repeats_from = std::ssize(generation.pieces[0]);
  }
  generation.then_wait = command == "hang";
  if (command == "fail") generation.then_error = absl::DataLossError("chunk 3 is damaged");
  if (command == "drop") generation.dropped_messages = 2;
  return {.generation = generation};
}

int Main() {
  SetLogLevel(LogLevel::kWarning);
  FakeEngine engine;
  const std::string text = Minutes();
  engine.AddDocument("minutes", text);
  engine.AddDocument("shopping list", "Bread, tar and forty fathoms of rope.\n");
  engine.Set(ScriptOf("plain", text));
  const auto server = http::Server::Start(
      {.listen = "127.0.0.1:0", .model_name = "scripted", .chat = true}, engine);
  if (!server.ok()) {
    std::cerr << server.status() << "\n";
    return 1;
  }
  std::cout << "ready http=" << (*server)->address() << std::endl;
  for (std::string command; std::getline(std::cin, command);) {
    engine.Set(ScriptOf(command, text));
    std::cout << command << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace recollect

int main() { return recollect::Main(); }
