// The verb `chat`: a conversation in the terminal, over mounted documents.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/turns_text.h"
#include "cli/common/connection.h"
#include "cli/common/json.h"
#include "cli/common/line_reader.h"
#include "cli/common/passages.h"
#include "cli/common/session_options.h"
#include "cli/verbs/verbs.h"
#include "model/text/printable.h"
#include "service/codec/codec.h"

namespace recollect::cli {
namespace {

constexpr int64_t kMaxTokens = 512;
constexpr int kNamesShown = 20;

constexpr char kCommands[] =
    "  /mount NAME[,NAME]  answer from these documents, too; NAME* is all whose names begin so;\n"
    "                      without NAME: what there is\n"
    "  /unmount [NAME,…]   no longer from these, or from none\n"
    "  /paste              ask the lines that follow, up to a line /end, as one message\n"
    "  /system TEXT        begin anew with this system message; without TEXT: the model's own\n"
    "  /new                begin anew\n"
    "  /save [ID]          keep the conversation as this document; without ID: no longer\n"
    "  /help               this list\n"
    "  /quit               end; so does ctrl-D. ctrl-C stops an answer\n";

struct ChatOptions {
  SessionFlags session;
  std::string question;  // empty: read from standard input, one a line
  std::string system;
  std::string save;             // empty: it is not saved
  bool replace = false;         // with `save`
  v1::GenerateRequest request;  // the rest
};

void PrintNotice(absl::string_view text) {
  std::fprintf(stderr, "%s\n", model::EscapeInvisible(text).c_str());
}

class Chat {
 public:
  Chat(client::Client& client, v1::GenerateRequest request, bool json)
      : client_(client),
        request_(std::move(request)),
        mount_filter_(request_.session().mount_filter()),
        json_(json) {}

  void Begin(const std::string& system) {
    request_.mutable_prompt()->clear_messages();
    if (!system.empty()) Say(v1::CHAT_ROLE_SYSTEM, system);
  }

  // Of mounts that name a document whether it is there: better heard before the first question.
  absl::Status CheckNamedMounts() const;
  // What is mounted, or could be.
  void Greet() const;
  // A command that begins with '/', but for /paste; false: to end.
  bool Command(absl::string_view line);
  // Asks, prints the answer as it comes and where it was found. The conversation keeps an answer
  // that was stopped; a question that was not answered leaves it.
  absl::Status Ask(const std::string& question);

 private:
  void Say(v1::ChatRole role, const std::string& content) {
    v1::ChatMessage& message = *request_.mutable_prompt()->add_messages();
    message.set_role(role);
    message.set_content(content);
  }
  void BeginAnew(const std::string& system);
  void Save(const std::string& id);
  void PrintSaved(const v1::Saved& saved) const;
  void PrintEnd(const v1::GenerateDone& done) const;
  void Mount(absl::string_view names);
  void ApplyMountFilter();
  void Unmount(absl::string_view names);
  // NOT_FOUND: there is none that a mount of this name, perhaps a wildcard, would read.
  absl::Status FindDocument(const std::string& name) const;
  bool IsMounted(absl::string_view name) const;
  void PrintMounts() const;
  void PrintMountable() const;

  client::Client& client_;
  v1::GenerateRequest request_;
  const std::string mount_filter_;  // of --mount-where
  const bool json_;
};

void Chat::PrintMounts() const {
  const auto& mounts = request_.session().mounts();
  const std::string names = mounts.empty() ? "nothing" : absl::StrJoin(mounts, ", ");
  PrintNotice(absl::StrCat("mounted: ", names));
}

// A few of their names: there may be millions.
void Chat::PrintMountable() const {
  const auto documents = client_.ListDocuments(kNamesShown, "");
  if (!documents.ok() || documents->documents().empty()) return;
  std::string names = absl::StrJoin(
      documents->documents(), ", ",
      [](std::string* out, const v1::Document& document) { absl::StrAppend(out, document.id()); });
  if (!documents->next_page_token().empty()) names += ", …";
  PrintNotice(absl::StrCat("/mount NAME answers from a document, /mount * from all: ", names));
}

void Chat::Greet() const {
  PrintMounts();
  if (request_.session().mounts().empty()) PrintMountable();
  std::fputs("Ask, or /help. ctrl-D ends.\n", stderr);
}

bool Chat::IsMounted(absl::string_view name) const {
  const auto& mounts = request_.session().mounts();
  return std::find(mounts.begin(), mounts.end(), name) != mounts.end();
}

absl::Status Chat::FindDocument(const std::string& name) const {
  absl::string_view beginning = name;
  if (!absl::ConsumeSuffix(&beginning, "*")) return client_.GetDocument(name).status();
  ASSIGN_OR_RETURN(const auto documents, client_.ListAllDocuments(mount_filter_));
  for (const v1::Document& document : documents) {
    if (absl::StartsWith(document.id(), beginning)) return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("no document for '", name, "'"));
}

absl::Status Chat::CheckNamedMounts() const {
  for (const std::string& name : request_.session().mounts()) {
    if (absl::EndsWith(name, "*")) continue;  // there may be some by the first question
    absl::Status found = FindDocument(name);
    if (absl::IsNotFound(found)) return found;  // what else there is concerns the question
  }
  return absl::OkStatus();
}

// Names have no commas, but may have spaces.
std::vector<std::string> NamesIn(absl::string_view list) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  return names;
}

void Chat::Mount(absl::string_view names) {
  for (const std::string& name : NamesIn(names)) {
    if (IsMounted(name)) {
      PrintNotice(absl::StrCat("'", name, "' is mounted already"));
    } else if (const absl::Status found = FindDocument(name); !found.ok()) {
      PrintNotice(found.message());
    } else {
      request_.mutable_session()->add_mounts(name);
    }
  }
  ApplyMountFilter();
  PrintMounts();
  if (names.empty()) PrintMountable();
}

// A filter without a wildcard is refused, but the next wildcard is to be filtered again.
void Chat::ApplyMountFilter() {
  v1::SessionOptions& session = *request_.mutable_session();
  const bool wildcard = std::any_of(session.mounts().begin(), session.mounts().end(),
                                    [](const auto& name) { return absl::EndsWith(name, "*"); });
  session.set_mount_filter(wildcard ? mount_filter_ : "");
}

void Chat::Unmount(absl::string_view names) {
  auto& mounts = *request_.mutable_session()->mutable_mounts();
  if (names.empty()) mounts.Clear();
  for (const std::string& name : NamesIn(names)) {
    if (!IsMounted(name)) PrintNotice(absl::StrCat("'", name, "' is not mounted"));
    mounts.erase(std::remove(mounts.begin(), mounts.end(), name), mounts.end());
  }
  ApplyMountFilter();
  PrintMounts();
}

// Another conversation does not take the place of the one that was saved.
void Chat::BeginAnew(const std::string& system) {
  if (request_.has_save_as())
    PrintNotice(absl::StrCat("(no longer saved as ", request_.save_as().document_id(), ")"));
  request_.clear_save_as();
  Begin(system);
}

// What there is of it at once, the rest turn by turn.
void Chat::Save(const std::string& id) {
  request_.clear_save_as();
  if (id.empty()) return;
  const std::string text = TurnsText(service::Decode(request_.prompt()).messages);
  if (!text.empty()) {
    v1::Saved saved;
    const auto there = client_.GetDocument(id);
    const bool grown =
        there.ok() &&
        Sha256Hex(text.substr(0, static_cast<size_t>(there->bytes()))) == there->sha256();
    const auto document =
        client_.IngestText(id, client::ReadFrom(text), nullptr, {.replace = grown});
    if (document.ok()) *saved.mutable_document() = *document;
    saved.set_error(std::string(document.status().message()));
    PrintSaved(saved);
    if (!document.ok()) return;
  }
  request_.mutable_save_as()->set_document_id(id);
}

void Chat::PrintSaved(const v1::Saved& saved) const {
  PrintNotice(saved.has_document() ? absl::StrCat("(saved as ", saved.document().id(), ": ",
                                                  saved.document().tokens(), " tokens)")
                                   : absl::StrCat("(not saved: ", saved.error(), ")"));
}

// What the end of an answer says besides.
void Chat::PrintEnd(const v1::GenerateDone& done) const {
  if (const int64_t dropped = done.usage().dropped_messages(); dropped > 0) {
    PrintNotice(absl::StrCat("(the model's context has no room for the first ", dropped,
                             " messages any more)"));
  }
  if (done.has_saved()) PrintSaved(done.saved());
}

bool Chat::Command(absl::string_view line) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  const auto& [command, rest] = parts;
  const absl::string_view argument = absl::StripAsciiWhitespace(rest);
  if (command == "/quit" || command == "/exit") return false;
  if (command == "/mount") {
    Mount(argument);
  } else if (command == "/unmount") {
    Unmount(argument);
  } else if (command == "/new" || command == "/system") {
    BeginAnew(std::string(argument));
  } else if (command == "/save") {
    Save(std::string(argument));
  } else {
    if (command != "/help") PrintNotice(absl::StrCat("there is no command '", command, "', only"));
    std::fputs(kCommands, stderr);
  }
  return true;
}

void PrintPiece(const std::string& text) {
  const std::string shown = model::PrintableText(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

absl::Status Chat::Ask(const std::string& question) {
  RETURN_IF_ERROR(CheckUtf8("the question", question));
  Say(v1::CHAT_ROLE_USER, question);
  std::string answer;
  google::protobuf::RepeatedPtrField<v1::Retrieval> retrievals;
  client::GenerateCallbacks callbacks;
  callbacks.cancel = &LineReader::interrupted();
  callbacks.on_retrieval = [&](const v1::Retrieval& retrieval) { *retrievals.Add() = retrieval; };
  callbacks.on_tokens = [&](const std::vector<int32_t>&, const std::string& text) {
    answer += text;
    if (!json_) PrintPiece(text);
    return true;
  };
  const absl::StatusOr<client::GenerateResult> result = client_.Generate(request_, callbacks);
  const bool stopped = absl::IsCancelled(result.status()) && LineReader::interrupted();
  // An error without an answer leaves standard output empty.
  if (!json_ && (result.ok() || stopped || !answer.empty())) std::fputc('\n', stdout);
  if (result.ok()) answer = result->text;
  if (answer.empty() && !result.ok()) {
    request_.mutable_prompt()->mutable_messages()->RemoveLast();
  } else {
    Say(v1::CHAT_ROLE_ASSISTANT, answer);
  }
  if (!result.ok() && !stopped) return result.status();
  if (json_) {
    if (result.ok()) PrintJson(ToJson(*result));
    return absl::OkStatus();
  }
  std::fflush(stdout);
  if (stopped) PrintNotice("(stopped)");
  if (result.ok() && result->done.reason() == v1::FINISH_REASON_REPETITION)
    PrintNotice("(stopped: it only repeated itself)");
  if (request_.session().mounts().empty()) {
    PrintNotice("  (nothing is mounted)");
  } else {
    PrintPassages(client_, retrievals, stderr);
  }
  if (result.ok()) PrintEnd(result->done);
  return absl::OkStatus();
}

absl::Status Talk(const Options& common, const ChatOptions& options) {
  v1::GenerateRequest request = options.request;
  ASSIGN_OR_RETURN(*request.mutable_session(), ToSessionOptions(options.session));
  RETURN_IF_ERROR(CheckUtf8("question", options.question));
  RETURN_IF_ERROR(CheckUtf8("--system", options.system));
  RETURN_IF_ERROR(CheckUtf8("--save", options.save));
  if (!options.save.empty()) request.mutable_save_as()->set_document_id(options.save);
  if (options.replace) request.mutable_save_as()->set_replace(true);
  request.set_with_retrievals(true);
  if (!request.has_max_tokens()) request.set_max_tokens(kMaxTokens);
  ASSIGN_OR_RETURN(const auto connection,
                   Connection::Open(common, request.session().mounts().empty()));
  LineReader lines(HistoryFile("chat_history"));
  Chat chat(connection->client(), std::move(request), common.json);
  chat.Begin(options.system);
  RETURN_IF_ERROR(chat.CheckNamedMounts());
  if (!options.question.empty()) return chat.Ask(options.question);
  if (lines.interactive()) chat.Greet();
  while (const std::optional<std::string> line = lines.Read("> ")) {
    const bool paste = absl::StripAsciiWhitespace(*line) == "/paste";
    const std::string pasted = paste ? lines.ReadUntil("/end") : "";
    const absl::string_view said = absl::StripAsciiWhitespace(paste ? pasted : *line);
    if (said.empty()) continue;
    if (!paste && said.front() == '/') {
      if (!chat.Command(said)) break;
      continue;
    }
    LineReader::interrupted() = false;
    absl::Status status = chat.Ask(std::string(said));
    // A person can ask again; a script must hear of it.
    if (!status.ok() && !lines.interactive()) return status;
    if (!status.ok()) PrintNotice(status.ToString());
  }
  return absl::OkStatus();
}

}  // namespace

void AddChat(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand("chat", "Talk with the model about mounted documents");
  auto options = std::make_shared<ChatOptions>();
  verb->add_option("question", options->question,
                   "Ask this alone, then end (default: a conversation)")
      ->type_name("TEXT");
  verb->add_option("--system", options->system, "System message (default: the model's own)")
      ->type_name("TEXT");
  CLI::Option* const save =
      verb->add_option("--save", options->save,
                       "Keep the conversation as this document, after each answer")
          ->type_name("ID");
  verb->add_flag("--replace", options->replace, "Replace any document that has this ID")
      ->needs(save);
  AddSessionFlags(*verb, options->session);
  AddAnswerFlags(*verb, options->request);
  verb->get_option("--max-tokens")->default_str(absl::StrCat(kMaxTokens));
  verb->add_flag_callback(
      "--no-stop-repetition", [options] { options->request.set_stop_repetition(false); },
      "Let an answer go on that only repeats itself");
  verb->add_flag_callback(
      "--no-quotes", [options] { options->request.set_quotes(false); },
      "Answer in the model's own words, instead of by sentences of the documents (less often "
      "right)");
  verb->footer(absl::StrCat(
      "\nExamples:\n"
      "  recollect chat --mount minutes\n"
      "  recollect chat --mount minutes 'When is the next meeting?'\n"
      "  echo 'When is the next meeting?' | recollect chat --mount minutes,notes\n"
      "  recollect chat --save talks/monday\n"
      "  recollect chat --mount 'talks/*'\n"
      "\n"
      "Without a question each line of standard input is one. Answers go to standard output. Below "
      "them, on\nstandard error, are the passages that the model read, with their share in the "
      "answer: it may have\nmisread them. \"(no document was read)\": the answer is the model's "
      "own. Commands are:\n",
      kCommands, "\n", kCommonHelp));
  RunWith(*verb, command, options, &Talk);
}

}  // namespace recollect::cli
