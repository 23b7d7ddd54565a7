#include "model/model_text.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "base/json.h"
#include "base/status.h"
#include "model/model.h"
#include "model/text/bpe_tokenizer.h"
#include "model/text/sentencepiece_tokenizer.h"
#include "model/weights/gguf.h"

namespace recollect::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

absl::Status CheckRows(size_t tokens, const ModelConfig& config) {
  if (tokens <= static_cast<size_t>(config.vocab_size)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(tokens, " tokens, the embedding has ", config.vocab_size, " rows"));
}

// Makes the tokenizer. An embedding may have more rows than the tokenizer has tokens: these stand
// for nothing.
absl::Status TakeVocabulary(BpeVocabulary vocabulary, const ModelConfig& config, ModelText& text) {
  RETURN_IF_ERROR(CheckRows(vocabulary.tokens.size(), config));
  if (const auto rows = static_cast<size_t>(config.vocab_size); vocabulary.tokens.size() < rows) {
    vocabulary.tokens.resize(rows);
    vocabulary.types.resize(rows, TokenType::kUnused);
  }
  if (vocabulary.add_bos && vocabulary.bos >= 0) text.begin_token = vocabulary.bos;
  ASSIGN_OR_RETURN(text.tokenizer, BpeTokenizer::Create(std::move(vocabulary)));
  return absl::OkStatus();
}

absl::Status TakeVocabulary(SentencePieceVocabulary vocabulary, const ModelConfig& config,
                            ModelText& text) {
  RETURN_IF_ERROR(CheckRows(vocabulary.pieces.size(), config));
  vocabulary.pieces.resize(static_cast<size_t>(config.vocab_size), {"", 0, TokenType::kUnused});
  if (vocabulary.add_bos && vocabulary.bos >= 0) text.begin_token = vocabulary.bos;
  ASSIGN_OR_RETURN(text.tokenizer, SentencePieceTokenizer::Create(std::move(vocabulary)));
  return absl::OkStatus();
}

absl::Status NoTemplate(const std::string& where) {
  return absl::NotFoundError(
      absl::StrCat("there is no chat_template in ", where,
                   "; name one with --chat-template: ", ChatTemplate::AllNames()));
}

void TakeTemplate(std::string_view jinja, ModelText& text) {
  auto chat = ChatTemplate::Recognize(jinja, *text.tokenizer, text.begin_token.has_value());
  text.no_chat = chat.status();
  if (chat.ok()) text.chat = *std::move(chat);
}

absl::StatusOr<ModelText> FromGguf(const std::string& path, const ModelConfig& config) {
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  ModelText text;
  ASSIGN_OR_RETURN(const auto model, file.metadata().GetString("tokenizer.ggml.model"));
  if (model == "llama") {
    ASSIGN_OR_RETURN(auto vocabulary, SentencePieceVocabulary::FromGguf(file.metadata()));
    RETURN_IF_ERROR(TakeVocabulary(std::move(vocabulary), config, text));
  } else {
    ASSIGN_OR_RETURN(BpeVocabulary vocabulary, BpeVocabulary::FromGguf(file.metadata()));
    RETURN_IF_ERROR(TakeVocabulary(std::move(vocabulary), config, text));
  }
  const auto jinja = file.metadata().GetString("tokenizer.chat_template");
  text.no_chat = NoTemplate("the file's metadata");
  if (jinja.ok()) TakeTemplate(*jinja, text);
  return text;
}

// The text of a token that tokenizer_config.json names, as a string or an object; empty: none.
std::string TokenNamed(const json& root, const char* key) {
  const auto found = root.find(key);
  if (found == root.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  const bool object = found->is_object() && found->contains("content");
  return object && (*found)["content"].is_string() ? (*found)["content"].get<std::string>() : "";
}

// Of a text, or of a list of texts with names the one that is called "default".
std::string TemplateIn(const json& root) {
  const auto found = root.find("chat_template");
  if (found == root.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return "";
  for (const json& entry : *found) {
    if (entry.is_object() && entry.value("name", json()) == "default") {
      return TokenNamed(entry, "template");
    }
  }
  return "";
}

// Whether the post-processor of a tokenizer.json, or one of several, begins a text with a token.
bool BeginsWithToken(const json& processor) {
  if (!processor.is_object()) return false;
  if (const auto several = processor.find("processors");
      several != processor.end() && several->is_array()) {
    return std::any_of(several->begin(), several->end(), BeginsWithToken);
  }
  const auto single = processor.find("single");
  return single != processor.end() && single->is_array() && !single->empty() &&
         (*single)[0].is_object() && (*single)[0].contains("SpecialToken");
}

absl::StatusOr<json> ReadJson(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  auto root = ParseJson(text, EqualKeys::kRefused);
  if (!root.ok()) return Annotate(root.status(), path);
  if (root->is_object()) return root;
  return absl::InvalidArgumentError(absl::StrCat(path, ": expected a JSON object"));
}

// Puts a token at its id, where the vocabulary may have another text.
absl::Status AddToken(const std::string& text, const json& id, bool special,
                      const ModelConfig& config, std::vector<SentencePiece>& pieces) {
  const auto rows = static_cast<size_t>(config.vocab_size);
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("added token ", json(text).dump(), " has the id ", id.dump(),
                     ", expected one of the embedding's ", rows, " rows"));
  }
  const auto at = id.get<size_t>();
  if (pieces.size() <= at) pieces.resize(at + 1, {"", 0, TokenType::kUnused});
  SentencePiece& piece = pieces[at];
  const bool added = piece.type == TokenType::kUnused;
  piece.text = text;
  if (added) piece.type = TokenType::kUserDefined;
  if (special || IsControlName(text)) piece.type = TokenType::kControl;
  return absl::OkStatus();
}

// The tokens that were added to a tokenizer.model: in tokenizer_config.json by their ids, or in a
// file of their own by their texts.
absl::Status AddTokens(const json& settings, const fs::path& folder, const ModelConfig& config,
                       std::vector<SentencePiece>& pieces) {
  if (const auto added = settings.find("added_tokens_decoder"); added != settings.end()) {
    for (const auto& [id, token] : added->items()) {
      const json number = json::parse(id, nullptr, /*allow_exceptions=*/false);
      const bool special = token.is_object() && token.value("special", json()) == true;
      RETURN_IF_ERROR(AddToken(TokenNamed(*added, id.c_str()), number, special, config, pieces));
    }
    return absl::OkStatus();
  }
  const std::string path = (folder / "added_tokens.json").string();
  if (!Exists(path)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const json file, ReadJson(path));
  for (const auto& [text, id] : file.items()) {
    RETURN_IF_ERROR(AddToken(text, id, /*special=*/false, config, pieces));
  }
  return absl::OkStatus();
}

absl::Status TakeTokenizerModel(const std::string& contents, const json& settings,
                                const fs::path& folder, const ModelConfig& config,
                                ModelText& text) {
  ASSIGN_OR_RETURN(auto vocabulary, SentencePieceVocabulary::FromModelFile(contents));
  RETURN_IF_ERROR(AddTokens(settings, folder, config, vocabulary.pieces));
  const std::string begin = TokenNamed(settings, "bos_token");
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const SentencePiece& piece = vocabulary.pieces[id];
    const bool named = piece.type == TokenType::kControl && piece.text == begin;
    if (named) vocabulary.bos = static_cast<int32_t>(id);
  }
  vocabulary.add_bos = settings.value("add_bos_token", json()) != false;
  if (settings.value("add_prefix_space", json()) == false) vocabulary.dummy_prefix = false;
  return TakeVocabulary(std::move(vocabulary), config, text);
}

absl::Status TakeTokenizerJson(const std::string& contents, const json& settings,
                               const ModelConfig& config, ModelText& text) {
  ASSIGN_OR_RETURN(BpeVocabulary vocabulary, BpeVocabulary::FromTokenizerJson(contents));
  const auto id_of = [&](const std::string& name) -> int32_t {
    const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), name);
    return name.empty() || found == vocabulary.tokens.end()
               ? -1
               : static_cast<int32_t>(found - vocabulary.tokens.begin());
  };
  vocabulary.bos = id_of(TokenNamed(settings, "bos_token"));
  vocabulary.eos = config.eos_id;
  ASSIGN_OR_RETURN(const json parsed, ParseJson(contents, EqualKeys::kRefused));
  vocabulary.add_bos = settings.value("add_bos_token", json()) == true ||
                       BeginsWithToken(parsed.value("post_processor", json()));
  return TakeVocabulary(std::move(vocabulary), config, text);
}

absl::StatusOr<ModelText> FromHub(const ModelFiles& files, const ModelConfig& config) {
  const fs::path tokenizer = files.tokenizer, folder = tokenizer.parent_path();
  json settings = json::object();
  if (const std::string path = (folder / "tokenizer_config.json").string(); Exists(path)) {
    ASSIGN_OR_RETURN(settings, ReadJson(path));
  }
  ModelText text;
  ASSIGN_OR_RETURN(const std::string contents, ReadWholeFile(files.tokenizer));
  RETURN_IF_ERROR(tokenizer.extension() == ".model"
                      ? TakeTokenizerModel(contents, settings, folder, config, text)
                      : TakeTokenizerJson(contents, settings, config, text));
  std::string jinja = TemplateIn(settings);
  if (const std::string path = (folder / "chat_template.jinja").string(); Exists(path)) {
    ASSIGN_OR_RETURN(jinja, ReadWholeFile(path));
  }
  text.no_chat = NoTemplate("tokenizer_config.json");
  if (!jinja.empty()) TakeTemplate(jinja, text);
  return text;
}

absl::StatusOr<ModelText> FromModelFile(const ModelFiles& files, const ModelConfig& config) {
  ModelText text;
  text.no_chat = absl::NotFoundError("a model of this project's format has no chat template");
  ASSIGN_OR_RETURN(text.tokenizer, Tokenizer::Load(files.tokenizer));
  RETURN_IF_ERROR(Annotate(CheckTokenizer(*text.tokenizer, config), files.tokenizer));
  return text;
}

}  // namespace

absl::StatusOr<ModelText> ReadModelText(const ModelFiles& files, const ModelConfig& config) {
  if (!Exists(files.tokenizer)) {
    ModelText none;
    none.no_chat = absl::NotFoundError(absl::StrCat("there is no ", files.tokenizer));
    return none;
  }
  if (files.layout == ModelLayout::kOwn) return FromModelFile(files, config);
  absl::StatusOr<ModelText> text = files.layout == ModelLayout::kGguf
                                       ? FromGguf(files.tokenizer, config)
                                       : FromHub(files, config);
  if (!text.ok()) return Annotate(text.status(), files.tokenizer);
  return text;
}

}  // namespace recollect::model
