#include "convert/hub_config.h"

#include <initializer_list>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace recollect::convert {
namespace {

constexpr int64_t kMaxNumber = int64_t{1} << 31;

// One section of the configuration; a missing one has no keys.
class Section {
 public:
  Section(const PickleTree& tree, const Value* dict, std::string path,
          std::vector<std::string>& problems)
      : tree_(tree), dict_(dict), path_(std::move(path)), problems_(problems) {}

  Section Inner(const char* key) const {
    const Value* inner = dict_ == nullptr ? nullptr : tree_.Find(*dict_, key);
    return Section(tree_, inner, absl::StrCat(path_, ".", key), problems_);
  }
  bool present() const { return dict_ != nullptr && std::holds_alternative<Dict>(*dict_); }
  const Value* dict() const { return dict_; }

  // The first of `keys` (the current name, then older ones) that is there. None counts as absent.
  const Value* Find(std::initializer_list<const char*> keys, std::string& name) const {
    for (const char* key : keys) {
      const Value* value = dict_ == nullptr ? nullptr : tree_.Find(*dict_, key);
      if (value == nullptr || std::holds_alternative<None>(*value)) continue;
      name = absl::StrCat(path_, ".", key);
      return value;
    }
    return nullptr;
  }

  std::optional<int64_t> Int(std::initializer_list<const char*> keys) const {
    std::string name;
    const Value* value = Find(keys, name);
    if (value == nullptr) return std::nullopt;
    const int64_t* number = std::get_if<int64_t>(value);
    if (number != nullptr && *number >= 1 && *number <= kMaxNumber) return *number;
    Wrong(name, *value, "an int of 1 or above");
    return std::nullopt;
  }

  std::optional<bool> Bool(std::initializer_list<const char*> keys) const {
    std::string name;
    const Value* value = Find(keys, name);
    if (value == nullptr) return std::nullopt;
    if (const bool* flag = std::get_if<bool>(value)) return *flag;
    Wrong(name, *value, "a bool");
    return std::nullopt;
  }

  std::optional<double> Number(std::initializer_list<const char*> keys) const {
    std::string name;
    const Value* value = Find(keys, name);
    if (value == nullptr) return std::nullopt;
    if (const int64_t* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
    if (const double* number = std::get_if<double>(value)) return *number;
    Wrong(name, *value, "a number");
    return std::nullopt;
  }

  std::optional<PerLayer> IntPerLayer(std::initializer_list<const char*> keys, int64_t low) const {
    std::string name;
    const Value* value = Find(keys, name);
    if (value == nullptr) return std::nullopt;
    PerLayer result;
    const auto add = [&](const Value& item) {
      const int64_t* number = std::get_if<int64_t>(&item);
      if (number == nullptr || *number < low || *number > kMaxNumber) return false;
      result.values.push_back(*number);
      return true;
    };
    const std::vector<ValueId>* items = nullptr;
    if (const List* list = std::get_if<List>(value)) items = &list->items;
    if (const Tuple* tuple = std::get_if<Tuple>(value)) items = &tuple->items;
    bool good = true;
    if (items == nullptr) {
      good = add(*value);
    } else {
      result.list = true;
      for (const ValueId id : *items) good = good && add(tree_.at(id));
    }
    if (good) return result;
    Wrong(name, *value,
          absl::StrCat("an int of ", low, " or above, or a list of them, one a layer"));
    return std::nullopt;
  }

  std::optional<std::string> Text(const char* key) const {
    std::string name;
    const Value* value = Find({key}, name);
    const std::string* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
    if (text == nullptr) return std::nullopt;
    return *text;
  }

  // A property that can have one value only.
  void ExpectText(const char* key, std::string_view expected) const {
    const std::optional<std::string> text = Text(key);
    if (text.has_value() && *text != expected)
      problems_.push_back(absl::StrCat(path_, ".", key, " is \"", Printable(*text),
                                       "\", expected \"", std::string(expected), "\""));
  }
  void ExpectFlag(const char* key, bool expected) const {
    const std::optional<bool> flag = Bool({key});
    if (flag.has_value() && *flag != expected) {
      problems_.push_back(absl::StrCat(path_, ".", key, " is ", *flag ? "true" : "false",
                                       ", expected ", expected ? "true" : "false"));
    }
  }

 private:
  void Wrong(const std::string& name, const Value& value, absl::string_view expected) const {
    const int64_t* number = std::get_if<int64_t>(&value);
    problems_.push_back(absl::StrCat(
        name, " is ", number != nullptr ? absl::StrCat(*number) : std::string(KindName(value)),
        ", expected ", expected));
  }

  const PickleTree& tree_;
  const Value* dict_;
  std::string path_;
  std::vector<std::string>& problems_;
};

}  // namespace

HubConfig ReadHubConfig(const PickleTree& tree, const Value* config,
                        std::vector<std::string>& problems) {
  HubConfig result;
  const Section root(tree, config, "config", problems);
  const Section backbone = root.Inner("model").Inner("backbone");
  if (!backbone.present()) return result;
  result.present = true;
  result.layers = backbone.Int({"num_layers"});
  result.d = backbone.Int({"d_model"});
  backbone.ExpectText("ln", "rmsnorm");
  backbone.ExpectFlag("bias", false);

  const Section mixer = backbone.Inner("seq_cell");
  result.head_dim = mixer.Int({"d_head"});
  result.heads = mixer.Int({"num_head"});
  result.dilation = mixer.IntPerLayer({"dilation_size", "chunk_size1"}, -1);
  result.window = mixer.IntPerLayer({"local_size"}, 0);
  result.initial = mixer.IntPerLayer({"initial_size", "prefix_size"}, 0);
  // A hybrid's seq_cell is its attention, seq_cell1 its RAT.
  const Section second = backbone.Inner("seq_cell1");
  const Section& rat = second.present() ? second : mixer;
  result.chunk = rat.Int({"chunk_size"});
  result.shared_heads = rat.Int({"ngroups"});
  result.attention_window = mixer.Int({"window_size"});
  result.recurrence = mixer.Bool({"apply_re"});
  result.joint_train = mixer.Bool({"joint_train", "mix_train"}).value_or(false);

  const Section ffn = backbone.Inner("hidden_cell");
  result.ffn = ffn.Int({"d_ffn"});
  ffn.ExpectText("act_fn", "gelu");
  result.activation = ffn.Text("act_fn");

  // Positions are one word, or a section with that word's parameters.
  const Section embedding = root.Inner("model").Inner("embedding");
  embedding.ExpectText("pe", "rope");
  const Section positions = embedding.Inner("pe");
  result.positions = positions.Text("_name_");
  result.rope_base = positions.Number({"base"});
  result.context = root.Inner("data").Int({"seq_len"});
  if (!result.context.has_value()) result.context = positions.Int({"max_seq_len"});
  result.vocab_size = root.Inner("data").Int({"vocab_size"});
  root.Inner("task").ExpectFlag("tie_embedding", true);
  return result;
}

}  // namespace recollect::convert
