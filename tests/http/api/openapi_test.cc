// GET /openapi.json against the server: its routes, the fields that requests may have, and the
// bounds of their values.
#include "http/api/openapi.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "http/api/routes.h"
#include "http/net/authorize.h"
#include "tests/access/access_testing.h"
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

json Description() { return http::ApiDescription(); }

// With the object that a reference stands for in its place.
json Resolved(const json& schema, const json& description) {
  if (!schema.contains("$ref")) return schema;
  return description[json::json_pointer(schema["$ref"].get<std::string>().substr(1))];
}

struct Operation {
  std::string method, path;
  json what;
};
std::vector<Operation> Operations(const json& description) {
  std::vector<Operation> operations;
  for (const auto& [path, item] : description["paths"].items()) {
    for (const auto& [method, what] : item.items())
      if (method != "parameters") operations.push_back({absl::AsciiStrToUpper(method), path, what});
  }
  return operations;
}

// All fields of a request, also those of what its schema is composed of.
std::map<std::string, json> Fields(const json& schema, const json& description) {
  const json whole = Resolved(schema, description);
  std::map<std::string, json> fields;
  for (const json& part : whole.value("allOf", json::array()))
    fields.merge(Fields(part, description));
  const json own = whole.value("properties", json::object());
  for (const auto& [name, field] : own.items()) fields[name] = Resolved(field, description);
  return fields;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(OpenApiTest, EveryRouteIsDescribedAndNoOther) {
  std::set<std::string> routes, described;
  for (const http::Route& route : http::Routes())
    routes.insert(absl::StrCat(route.method, " ", route.path));
  for (const Operation& operation : Operations(Description())) {
    described.insert(operation.method + " " +
                     std::regex_replace(operation.path, std::regex(R"(\{[^}]*\})"), "{}"));
  }
  EXPECT_EQ(described, routes);
}

TEST(OpenApiTest, EveryFileIsInTheBinaryByteForByte) {
  const std::filesystem::path folder = std::string(RECOLLECT_SOURCE_DIR) + "/http/api/description";
  std::set<std::string> on_disk, embedded;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    on_disk.insert(entry.path().filename());
  for (const http::EmbeddedFile& file : http::ApiFiles()) {
    embedded.emplace(file.name);
    EXPECT_EQ(file.content, ReadFile(folder / file.name)) << file.name;
  }
  EXPECT_EQ(embedded, on_disk);
}

TEST(OpenApiTest, EveryReferenceHasItsTargetAndEveryTargetAReference) {
  const json description = Description();
  std::set<std::string> referred;
  const std::function<void(const json&)> look = [&](const json& value) {
    if (value.is_object() && value.contains("$ref")) {
      const std::string target = value["$ref"].get<std::string>().substr(1);
      EXPECT_TRUE(description.contains(json::json_pointer(target))) << target;
      referred.insert(target);
    }
    if (value.is_structured()) {
      for (const json& part : value) look(part);
    }
  };
  look(description);
  referred.insert(
      "/components/schemas/UploadProgress");  // OpenAPI 3.1 has no word for lines of JSON
  for (const char* kind : {"schemas", "responses", "parameters", "headers"}) {
    for (const auto& [name, part] : description["components"][kind].items())
      EXPECT_TRUE(referred.contains(absl::StrCat("/components/", kind, "/", name))) << name;
  }
}

TEST(OpenApiTest, ErrorsHaveAllCodes) {
  const json description = Description();
  const json& codes = description["components"]["schemas"]["Error"]["properties"]["error"]
                                 ["properties"]["code"]["enum"];
  std::set<std::string> all;
  for (int code = 1; code <= 16; ++code)
    all.insert(
        absl::AsciiStrToLower(absl::StatusCodeToString(static_cast<absl::StatusCode>(code))));
  EXPECT_EQ(codes.get<std::set<std::string>>(), all);
}

class OpenApiServerTest : public HttpTest {
 protected:
  // What a request must have, from its example.
  static json Least(const json& content, const json& schema) {
    json least = json::object();
    for (const json& name : schema["required"]) {
      const auto key = name.get<std::string>();
      least[key] = key == "model" ? json("fake") : content["example"][key];
    }
    // Chat's top_logprobs has no meaning without.
    if (least.contains("messages")) least["logprobs"] = true;
    return least;
  }

  // Calls `visit` with each field of each request that is JSON.
  void ForEachField(const std::function<void(const std::string& path, const json& least,
                                             const std::string& name, const json& field)>& visit) {
    const json description = Description();
    int requests = 0;
    for (const Operation& operation : Operations(description)) {
      const json content = operation.what.value("requestBody", json::object())
                               .value("content", json::object())
                               .value("application/json", json::object());
      if (content.empty() || operation.method != "POST") continue;
      ++requests;
      const json schema = Resolved(content["schema"], description);
      const json least = Least(content, schema);
      EXPECT_THAT(Ask(Post(operation.path, least.dump())), Not(StartsWith("HTTP/1.1 4"))) << least;
      for (const auto& [name, field] : Fields(schema, description)) {
        SCOPED_TRACE(operation.path + " " + name);
        visit(operation.path, least, name, field);
      }
    }
    EXPECT_EQ(requests, 7);
  }

  // Whether the server says that this value of the field is wrong. Its message then begins with the
  // field.
  bool Refused(const std::string& path, json body, const std::string& name, const json& value) {
    body[name] = value;
    const std::string answer = Ask(Post(path, body.dump()));
    const json error = Body(answer).value("error", json::object());
    if (!absl::StartsWith(answer, "HTTP/1.1 400") || error["param"] != name) return false;
    EXPECT_THAT(error.value("message", ""), StartsWith(name + ": "));
    return true;
  }
};

TEST_F(OpenApiServerTest, IsServedWithTheReleaseInIt) {
  Start({.listen = "127.0.0.1:0", .model_name = "fake", .version = "1.2.3"});
  const std::string answer = Ask(Get("/openapi.json"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: application/json\r\n"));
  json expected = Description();
  expected["info"]["version"] = "1.2.3";
  EXPECT_EQ(Body(answer), expected);
  EXPECT_THAT(expected["openapi"], "3.1.0");
}

// Where a key is asked for, `security` says so.
TEST_F(OpenApiServerTest, WhatNeedsNoKeyIsWhatTheDescriptionSays) {
  const std::string keys = ::testing::TempDir() + "/recollect_openapi";
  std::filesystem::remove(keys);
  ASSERT_THAT(access::AddKey(keys, KeyOf("full")), IsOk());
  const auto guard = access::Guard::Open(keys).value();
  Start({.listen = "127.0.0.1:0", .model_name = "fake", .authorize = [&](const http::Request& r) {
           return http::Authorize(*guard, r);
         }});
  for (const Operation& operation : Operations(Description())) {
    const std::string path = std::regex_replace(operation.path, std::regex(R"(\{[^}]*\})"), "x");
    const std::string answer = Ask(absl::StrCat(
        operation.method, " ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    const bool open = operation.what.value("security", json(nullptr)) == json::array();
    EXPECT_EQ(!absl::StartsWith(answer, "HTTP/1.1 401"), open) << path;
    EXPECT_NE(operation.what["responses"].contains("401"), open) << path;
  }
  server_.reset();
}

TEST_F(OpenApiServerTest, EveryFieldIsKnownToTheServerAndNoOther) {
  StartWithTokenizer();
  ForEachField(
      [&](const std::string& path, const json& least, const std::string& name, const json& field) {
        json body = least;
        body[name] = field.value("type", json()) == "object" ? json(1) : json::object({{"x", 1}});
        EXPECT_THAT(Ask(Post(path, body.dump())), Not(HasSubstr("unrecognized"))) << body;
        if (field.contains("default")) {
          EXPECT_FALSE(Refused(path, least, name, field["default"]));
        }
        body = least;
        body["no_such_field"] = 1;
        EXPECT_THAT(Ask(Post(path, body.dump())), HasSubstr("unrecognized"));
      });
}

// What the sources take from a request by its name.
std::set<std::string> TakenFields() {
  const std::regex take(R"re(Take\(object, "([a-z0-9_]+)")re");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(RECOLLECT_SOURCE_DIR "/http/api")) {
    const std::string text = entry.is_regular_file() ? ReadFile(entry.path()) : "";
    for (std::sregex_iterator at(text.begin(), text.end(), take), end; at != end; ++at)
      names.insert((*at)[1]);
  }
  return names;
}

TEST_F(OpenApiServerTest, EveryFieldThatTheServerTakesIsDescribed) {
  StartWithTokenizer();
  std::set<std::string> described;
  ForEachField([&](const std::string&, const json&, const std::string& name, const json&) {
    described.insert(name);
  });
  EXPECT_GT(TakenFields().size(), 30u);
  for (const std::string& name : TakenFields()) EXPECT_TRUE(described.contains(name)) << name;
}

json Array(size_t size, const json& items) {
  json array = json::array();
  for (size_t i = 0; i < size; ++i) {
    if (items.contains("enum") || items.value("type", "") == "integer") {
      array.push_back(i + 1);  // ascending, as flush_after has to be
    } else if (items.value("type", "") == "object") {
      array.push_back({{"role", "user"}, {"content", "x"}});
    } else {
      array.push_back(absl::StrCat("x", i));  // no document is mounted twice
    }
  }
  return array;
}

// The values on the bounds of a schema and next to them outside.
struct Bounds {
  std::vector<json> inside, outside;
};
json Next(const json& bound, int step) {
  if (bound.is_number_float() || bound == std::numeric_limits<uint64_t>::max() ||
      bound == std::numeric_limits<int64_t>::min())
    return bound.get<double>() + step;
  return bound.get<int64_t>() + step;
}
Bounds BoundsOf(const json& schema, const json& description) {
  Bounds bounds;
  const json items = Resolved(schema.value("items", json::object()), description);
  const auto add = [&](const char* name, int step, const std::function<json(const json&)>& value) {
    if (!schema.contains(name)) return;
    bounds.inside.push_back(value(schema[name]));
    const json next = Next(schema[name], step);
    if (next >= 0 || absl::StartsWith(name, "min")) bounds.outside.push_back(value(next));
  };
  const auto number = [](const json& n) { return n; };
  const auto text = [](const json& n) { return json(std::string(n.get<size_t>(), 'x')); };
  const auto array = [&](const json& n) { return Array(n.get<size_t>(), items); };
  add("minimum", -1, number);
  add("maximum", 1, number);
  add("minLength", -1, text);
  add("maxLength", 1, text);
  add("minItems", -1, array);
  add("maxItems", 1, array);
  return bounds;
}

TEST_F(OpenApiServerTest, EveryBoundIsTheServers) {
  StartWithTokenizer();
  const json description = Description();
  int tried = 0;
  ForEachField(
      [&](const std::string& path, const json& least, const std::string& name, const json& field) {
        for (const json& either : field.value("anyOf", json::array({field}))) {
          const Bounds bounds = BoundsOf(Resolved(either, description), description);
          for (const json& value : bounds.outside) {
            EXPECT_TRUE(Refused(path, least, name, value)) << value.dump().substr(0, 80);
            ++tried;
          }
          for (const json& value : bounds.inside)
            EXPECT_FALSE(Refused(path, least, name, value)) << value.dump().substr(0, 80);
        }
      });
  EXPECT_GT(tried, 50);
}

// The first number in a cell of a table; none: there is none.
std::string NumberIn(absl::string_view cell) {
  const size_t begin = cell.find_first_of("-0123456789");
  if (begin == absl::string_view::npos) return "";
  const absl::string_view number = cell.substr(begin);
  return std::string(number.substr(0, number.find_first_not_of("-0123456789")));
}

// The table of limits in docs/http.md: each row is true of a field of each name in it.
TEST_F(OpenApiServerTest, ThePageHasTheSameLimits) {
  StartWithTokenizer();
  const json description = Description();
  std::set<std::string> bounds;  // "top_p 0 1"
  ForEachField([&](const std::string&, const json&, const std::string& name, const json& field) {
    for (const json& either : field.value("anyOf", json::array({field}))) {
      const json schema = Resolved(either, description);
      const auto bound = [&](const char* number, const char* count) {
        const json found = schema.value(number, schema.value(count, json()));
        return found.is_null() ? "" : found.dump();
      };
      bounds.insert(
          absl::StrCat(name, " ", bound("minimum", "minItems"), " ", bound("maximum", "maxItems")));
    }
  });
  const std::string page = ReadFile(std::string(RECOLLECT_SOURCE_DIR) + "/docs/http.md");
  const size_t begin = page.find("| field | at least | at most |");
  ASSERT_NE(begin, std::string::npos);
  const std::string table = page.substr(begin, page.find("\n\n", begin) - begin);
  const std::vector<std::string> rows = absl::StrSplit(table, '\n');
  EXPECT_GT(rows.size(), 12u);
  for (size_t row = 2; row < rows.size(); ++row) {
    const std::vector<std::string> cells = absl::StrSplit(rows[row], '|');
    ASSERT_EQ(cells.size(), 5u) << rows[row];
    const std::vector<std::string> names = absl::StrSplit(cells[1], '`');
    for (size_t i = 1; i < names.size(); i += 2) {
      EXPECT_THAT(bounds, ::testing::Contains(absl::StrCat(names[i], " ", NumberIn(cells[2]), " ",
                                                           NumberIn(cells[3]))))
          << rows[row];
    }
  }
}

TEST_F(OpenApiServerTest, StatsHasTheDescribedFields) {
  const json stats = Body(Ask(Get("/v1/stats")));
  std::set<std::string> said, described;
  for (const auto& [name, value] : stats.items()) said.insert(name);
  const json fields = Description()["components"]["schemas"]["Stats"]["properties"];
  for (const auto& [name, field] : fields.items()) described.insert(name);
  EXPECT_EQ(said, described);
}

}  // namespace
}  // namespace recollect
