#include "store/metadata_filter.h"

#include <algorithm>
#include <compare>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status.h"
#include "store/metadata.h"

namespace recollect::store {
namespace {

using nlohmann::json;

constexpr int64_t kPage = 1024;  // documents read at once

// Of a document's value beside the filter's. Unordered: they are of different types, or the
// document has none.
using Order = std::partial_ordering;

enum class Form { kComparison, kIn, kNin, kAnd, kOr };

struct Type {
  absl::string_view name;
  Form form;
  bool (*holds)(Order) = nullptr;  // of a comparison, like the next
  bool takes_booleans = false;
};

constexpr Type kTypes[] = {
    {"eq", Form::kComparison, [](Order order) { return order == 0; }, true},
    {"ne", Form::kComparison, [](Order order) { return order != 0; }, true},
    {"gt", Form::kComparison, [](Order order) { return order > 0; }},
    {"gte", Form::kComparison, [](Order order) { return order >= 0; }},
    {"lt", Form::kComparison, [](Order order) { return order < 0; }},
    {"lte", Form::kComparison, [](Order order) { return order <= 0; }},
    {"in", Form::kIn},
    {"nin", Form::kNin},
    {"and", Form::kAnd},
    {"or", Form::kOr},
};

absl::Status Bad(absl::string_view place, absl::string_view is, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", is, ", expected ", expected));
}

// Integers are compared as such: not all of them are doubles.
std::weak_ordering CompareNumbers(const json& a, const json& b) {
  if (a.is_number_float() || b.is_number_float()) {
    return std::weak_order(a.get<double>(), b.get<double>());
  }
  const auto is_large = [](const json& n) {
    return n.is_number_unsigned() && n.get<uint64_t>() > INT64_MAX;
  };
  if (is_large(a) && is_large(b)) return a.get<uint64_t>() <=> b.get<uint64_t>();
  if (is_large(a) || is_large(b)) return is_large(a) <=> is_large(b);
  return a.get<int64_t>() <=> b.get<int64_t>();
}

Order Compare(const json& a, const json& b) {
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b);
  if (a.is_string() && b.is_string()) {
    return a.get_ref<const std::string&>() <=> b.get_ref<const std::string&>();
  }
  if (a.is_boolean() && b.is_boolean()) return a.get<bool>() <=> b.get<bool>();
  return Order::unordered;
}

}  // namespace

struct MetadataFilter::Node {
  const Type* type = nullptr;
  std::string key;
  json value;                 // of in and nin a list
  std::vector<Node> filters;  // of and, or

  bool Matches(const json& metadata) const {
    const auto matches = [&](const Node& filter) { return filter.Matches(metadata); };
    if (type->form == Form::kAnd) return std::all_of(filters.begin(), filters.end(), matches);
    if (type->form == Form::kOr) return std::any_of(filters.begin(), filters.end(), matches);
    const auto found = metadata.find(key);
    const auto order = [&](const json& other) {
      return found == metadata.end() ? Order::unordered : Compare(*found, other);
    };
    if (type->form == Form::kComparison) return type->holds(order(value));
    const bool listed =
        std::any_of(value.begin(), value.end(), [&](const json& one) { return order(one) == 0; });
    return listed == (type->form == Form::kIn);
  }
};

namespace {

using Node = MetadataFilter::Node;

// Takes a field out of the object.
absl::StatusOr<json> Take(json& object, const char* name, const std::string& place) {
  const auto found = object.find(name);
  if (found == object.end()) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": ", name, " is missing"));
  }
  json value = std::move(*found);
  object.erase(found);
  return value;
}

absl::StatusOr<std::string> TakeString(json& object, const char* name, const std::string& place) {
  ASSIGN_OR_RETURN(const json value, Take(object, name, place));
  if (value.is_string()) return value.get<std::string>();
  return Bad(absl::StrCat(place, ".", name), value.type_name(), "a string");
}

absl::StatusOr<const Type*> TakeType(json& object, const std::string& place) {
  ASSIGN_OR_RETURN(const std::string name, TakeString(object, "type", place));
  std::string known;
  for (const Type& type : kTypes) {
    if (name == type.name) return &type;
    absl::StrAppend(&known, known.empty() ? "one of " : ", ", type.name);
  }
  return Bad(absl::StrCat(place, ".type"), ShownInMessage(name), known);
}

absl::StatusOr<Node> ParseNode(json object, const std::string& place, int64_t depth);

absl::Status TakeFilters(json& object, const std::string& place, int64_t depth, Node& node) {
  ASSIGN_OR_RETURN(json list, Take(object, "filters", place));
  const std::string name = absl::StrCat(place, ".filters");
  if (!list.is_array()) return Bad(name, list.type_name(), "a list of filters");
  if (list.empty()) return Bad(name, "an empty list", "at least one filter");
  for (size_t i = 0; i < list.size(); ++i) {
    ASSIGN_OR_RETURN(Node filter,
                     ParseNode(std::move(list[i]), absl::StrCat(name, "[", i, "]"), depth + 1));
    node.filters.push_back(std::move(filter));
  }
  return absl::OkStatus();
}

absl::Status CheckFilterValue(const std::string& name, const json& value, bool boolean) {
  if (value.is_string() || value.is_number() || (boolean && value.is_boolean())) {
    return absl::OkStatus();
  }
  return Bad(name, value.type_name(),
             boolean ? "a string, a number, true or false" : "a string or a number");
}

absl::Status TakeComparison(json& object, const std::string& place, Node& node) {
  ASSIGN_OR_RETURN(node.key, TakeString(object, "key", place));
  ASSIGN_OR_RETURN(node.value, Take(object, "value", place));
  const std::string name = absl::StrCat(place, ".value");
  if (node.type->form == Form::kComparison) {
    return CheckFilterValue(name, node.value, node.type->takes_booleans);
  }
  if (!node.value.is_array()) return Bad(name, node.value.type_name(), "a list of values");
  for (size_t i = 0; i < node.value.size(); ++i) {
    RETURN_IF_ERROR(CheckFilterValue(absl::StrCat(name, "[", i, "]"), node.value[i], true));
  }
  return absl::OkStatus();
}

absl::StatusOr<Node> ParseNode(json object, const std::string& place, int64_t depth) {
  if (depth > kMaxFilterDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": filters are more than ", kMaxFilterDepth, " deep"));
  }
  if (!object.is_object()) return Bad(place, object.type_name(), "an object");
  Node node;
  ASSIGN_OR_RETURN(node.type, TakeType(object, place));
  const bool compound = node.type->form == Form::kAnd || node.type->form == Form::kOr;
  RETURN_IF_ERROR(compound ? TakeFilters(object, place, depth, node)
                           : TakeComparison(object, place, node));
  if (object.empty()) return node;
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": unknown field ", ShownInMessage(object.begin().key())));
}

}  // namespace

absl::StatusOr<MetadataFilter> MetadataFilter::Parse(absl::string_view text,
                                                     absl::string_view field) {
  if (text.empty()) return MetadataFilter();
  RETURN_IF_ERROR(recollect::CheckRange<int64_t>(absl::StrCat(field, ": bytes"), std::ssize(text),
                                                 0, kMaxFilterBytes));
  absl::StatusOr<json> object = ParseJson(text, EqualKeys::kRefused);
  if (!object.ok()) return Annotate(object.status(), field);
  ASSIGN_OR_RETURN(Node root, ParseNode(*std::move(object), std::string(field), 1));
  MetadataFilter filter;
  filter.root_ = std::make_shared<const Node>(std::move(root));
  return filter;
}

bool MetadataFilter::Matches(absl::string_view metadata) const {
  if (root_ == nullptr) return true;
  if (metadata.empty()) return root_->Matches(json::object());
  // Was checked when it was written; ParseJson, which says what is wrong, takes several times as
  // long.
  const json object = json::parse(metadata.begin(), metadata.end(), nullptr,
                                  /*allow_exceptions=*/false);
  return object.is_object() && root_->Matches(object);
}

absl::StatusOr<std::vector<DocumentInfo>> ListMatching(Catalog& catalog, std::string after,
                                                       int64_t limit, absl::string_view beginning,
                                                       const MetadataFilter& filter) {
  std::vector<DocumentInfo> matching;
  const auto add = [&](const DocumentInfo& info) {
    if (!info.damage.empty() || filter.Matches(info.metadata)) matching.push_back(info);
  };
  // A list begins behind its `after`, so the document of just that id is asked for.
  if (after < beginning) {
    after = std::string(beginning);
    if (const auto itself = catalog.Get(after); itself.ok()) {
      add(*itself);
    } else if (!absl::IsNotFound(itself.status())) {
      return itself.status();
    }
  }
  while (std::ssize(matching) < limit) {
    const int64_t page_size =
        filter.matches_all() ? std::min(kPage, limit - std::ssize(matching)) : kPage;
    ASSIGN_OR_RETURN(const std::vector<DocumentInfo> page, catalog.List(after, page_size));
    for (const DocumentInfo& info : page) {
      if (!absl::StartsWith(info.id, beginning) || std::ssize(matching) == limit) return matching;
      add(info);
      after = info.id;
    }
    if (std::ssize(page) < page_size) break;
  }
  return matching;
}

}  // namespace recollect::store
