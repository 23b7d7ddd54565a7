// Every number of every request over gRPC, one at a time, is what no client should send: each is
// refused by name or taken, and the server goes on.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "recollect/v1/admin.pb.h"
#include "recollect/v1/documents.pb.h"
#include "recollect/v1/generation.pb.h"
#include "tests/e2e/server_testing.h"
#include "tests/service/raw_call.h"

namespace recollect {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Of a field, and through which fields of messages it is reached.
using FieldPath = std::vector<const FieldDescriptor*>;

void AddNumbers(const google::protobuf::Descriptor& type, FieldPath& path,
                std::vector<FieldPath>& found) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    path.push_back(field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AddNumbers(*field->message_type(), path, found);
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING &&
               field->cpp_type() != FieldDescriptor::CPPTYPE_BOOL) {
      found.push_back(path);
    }
    path.pop_back();
  }
}

// Sets the field at the end of `path` to `value`, whatever kind of number it is.
void Set(Message& message, const FieldPath& path, double value) {
  Message* inner = &message;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const Reflection& reflection = *inner->GetReflection();
    inner = path[i]->is_repeated() ? reflection.AddMessage(inner, path[i])
                                   : reflection.MutableMessage(inner, path[i]);
  }
  const Reflection& reflection = *inner->GetReflection();
  const FieldDescriptor* const field = path.back();
  const bool repeated = field->is_repeated();
  const auto whole = [&](auto least, auto most) {
    return value <= static_cast<double>(least)  ? least
           : value >= static_cast<double>(most) ? most
                                                : static_cast<decltype(least)>(value);
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      const int32_t number = whole(INT32_MIN, INT32_MAX);
      repeated ? reflection.AddInt32(inner, field, number)
               : reflection.SetInt32(inner, field, number);
      break;
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      const int64_t number = whole(INT64_MIN, INT64_MAX);
      repeated ? reflection.AddInt64(inner, field, number)
               : reflection.SetInt64(inner, field, number);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT32:
      reflection.SetUInt32(inner, field, whole(uint32_t{0}, UINT32_MAX));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      reflection.SetUInt64(inner, field, whole(uint64_t{0}, UINT64_MAX));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      reflection.SetFloat(inner, field, static_cast<float>(value));
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      reflection.SetEnumValue(inner, field, whole(INT32_MIN, INT32_MAX));
      break;
    default:
      FAIL() << field->full_name() << ": a number of another kind";
  }
}

bool IsNumber(const FieldDescriptor& field, double value) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT || !std::isnan(value);
}

// A message about `path` names it, or the number of which a list is made.
bool Names(absl::string_view message, const FieldPath& path) {
  for (const FieldDescriptor* field : path) {
    absl::string_view name = field->name();
    if (absl::StartsWith(name, "layer_")) name = name.substr(6, name.size() - 7);
    if (absl::StrContains(message, name)) return true;
  }
  // "token 0: id -1 is unknown"; "ingests under its own pattern, expected none in the request".
  return absl::StrContains(message, "token ") || absl::StrContains(message, "its own pattern");
}

TEST_F(ServerTest, NoNumberIsTooStrangeToBeRefusedByName) {
  StartServer(Path("model"));
  ASSERT_TRUE(client_->IngestText("d", client::ReadFrom("Call me Ishmael. Some years ago")).ok());
  v1::GenerateRequest generate;
  generate.mutable_prompt()->add_tokens(5);
  generate.set_max_tokens(1);
  v1::ScoreRequest score;
  score.mutable_prompt()->add_tokens(5);
  score.mutable_prompt()->add_tokens(6);
  v1::RetrieveRequest retrieve;
  retrieve.mutable_session()->add_mounts("d");
  retrieve.mutable_query()->add_tokens(5);
  v1::ReadTextRequest read;
  read.set_id("d");
  v1::OpenSessionRequest open;
  v1::GetSessionRequest get;
  v1::CloseSessionRequest close;
  v1::ListDocumentsRequest documents;
  v1::ListIngestsRequest ingests;
  v1::CreateBackupRequest backup;
  v1::IngestRequest ingest;
  ingest.mutable_header()->set_id("new");
  const std::pair<const char*, const Message*> calls[] = {
      {"Generation/Generate", &generate},  {"Generation/Score", &score},
      {"Generation/OpenSession", &open},   {"Generation/GetSession", &get},
      {"Generation/CloseSession", &close}, {"Documents/Retrieve", &retrieve},
      {"Documents/ReadText", &read},       {"Documents/ListDocuments", &documents},
      {"Documents/ListIngests", &ingests}, {"Documents/Ingest", &ingest},
      {"Admin/CreateBackup", &backup},
  };
  const double infinity = std::numeric_limits<double>::infinity();
  int asked = 0, refused = 0;
  for (const auto& [method, request] : calls) {
    std::vector<FieldPath> paths;
    FieldPath path;
    AddNumbers(*request->GetDescriptor(), path, paths);
    for (const FieldPath& numbers : paths) {
      for (const double value : {-1.0, 77.0, 2147483648.0, -infinity, infinity, std::nan("")}) {
        if (!IsNumber(*numbers.back(), value)) continue;
        const std::unique_ptr<Message> sent(request->New());
        sent->CopyFrom(*request);
        Set(*sent, numbers, value);
        const absl::Status status =
            RawCall(address_, absl::StrCat("/recollect.v1.", method), sent->SerializeAsString())
                .status();
        SCOPED_TRACE(absl::StrCat(method, " ", sent->ShortDebugString(), ": ", status.ToString()));
        ++asked;
        if (status.ok()) continue;
        ++refused;
        if (absl::IsInvalidArgument(status)) {
          EXPECT_TRUE(Names(status.message(), numbers));
        } else {
          EXPECT_TRUE(absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
                      absl::IsOutOfRange(status));
        }
      }
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(asked, refused);
  EXPECT_TRUE(client_->GetStats().ok());
  EXPECT_EQ(StopServer(), 0);
}

}  // namespace
}  // namespace recollect
