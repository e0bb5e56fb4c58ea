#include "libshard/convert/tokenizers/chat_template.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxTemplateBytes = 16u << 20;
// Far more than any model has; each becomes a key.
constexpr size_t kMaxTemplates = 1024;
constexpr size_t kMaxName = 256;
constexpr const char* kJinja = "chat_template.jinja";
constexpr const char* kJson = "chat_template.json";
constexpr const char* kAdditional = "additional_chat_templates";
constexpr const char* kKey = "tokenizer.chat_template";

struct Template {
  std::string name, text;  // "default" for the one used by default
};

// Names become parts of keys.
std::string KeyName(std::string name) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  std::replace_if(
      name.begin(), name.end(), [&](char c) { return !plain(c); }, '_');
  return name;
}

// Either a text, or a list of {"name", "template"}.
Result<std::vector<Template>> FromJson(const std::string& where, const Json& value) {
  std::vector<Template> templates;
  if (value.is_string()) {
    templates.push_back({"default", value.get<std::string>()});
    return templates;
  }
  const auto text = [](const Json& item, const char* key) {
    return item.is_object() && item.contains(key) && item.at(key).is_string();
  };
  const auto named = [&](const Json& item) { return text(item, "name") && text(item, "template"); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), named)) {
    return Error{Code::kCorrupt,
                 Cat(where, ": chat_template: expected a text or a list of named ones, found ",
                     DescribeJson(value))};
  }
  for (const Json& item : value) {
    templates.push_back(
        {item.at("name").get<std::string>(), item.at("template").get<std::string>()});
  }
  return templates;
}

// Reads a template as llama.cpp's converter does, which opens it as text: every "\r\n" and every
// other "\r" becomes "\n". Templates inside JSON documents keep theirs.
Result<std::string> ReadJinja(const SourceTree& tree, const std::string& file) {
  SHARD_TRY(const std::string text, tree.ReadText(file, kMaxTemplateBytes));
  std::string lines;
  lines.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool pair = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (!pair) lines += text[i] == '\r' ? '\n' : text[i];
  }
  return lines;
}

// additional_chat_templates/<name>.jinja, by name.
Status ReadAdditional(const SourceTree& tree, std::vector<Template>& templates) {
  constexpr std::string_view kSuffix = ".jinja";
  SHARD_TRY(const std::vector<std::string> files, tree.List(kAdditional, kSuffix));
  for (const std::string& file : files) {
    SHARD_TRY(std::string text, ReadJinja(tree, Cat(kAdditional, "/", file)));
    templates.push_back({file.substr(0, file.size() - kSuffix.size()), std::move(text)});
  }
  return Ok();
}

Result<std::vector<Template>> ReadTemplates(const TokenizerFiles& files) {
  std::vector<Template> templates;
  if (files.config() == nullptr) return templates;
  if (const Json* value = files.Config("chat_template")) {
    return FromJson(files.PathOf("tokenizer_config.json"), *value);
  }
  if (files.HasFile(kJinja)) {
    SHARD_TRY(std::string text, ReadJinja(files.tree(), kJinja));
    templates.push_back({"default", std::move(text)});
    SHARD_CHECK(ReadAdditional(files.tree(), templates));
    return templates;
  }
  if (!files.HasFile(kJson)) return templates;
  const std::string path = files.PathOf(kJson);
  SHARD_TRY(const std::string text, files.tree().ReadText(kJson, kMaxTemplateBytes));
  SHARD_TRY(const Json document, ParseJson(path, text));
  const auto value = document.is_object() ? document.find("chat_template") : document.end();
  if (value == document.end() || value->is_null()) return templates;
  return FromJson(path, *value);
}

}  // namespace

namespace {

Status CheckTemplates(const SourceTree& tree, const std::vector<Template>& templates) {
  const std::string where = Cat(tree.name(), ": chat templates: ");
  if (templates.size() > kMaxTemplates) {
    return Error{Code::kCorrupt,
                 Cat(where, "expected at most ", kMaxTemplates, ", found ", templates.size())};
  }
  for (const Template& chat : templates) {
    if (chat.name.size() > kMaxName) {
      return Error{Code::kCorrupt, Cat(where, "name: expected at most ", kMaxName, " bytes, found ",
                                       chat.name.size())};
    }
    if (IsUtf8(chat.text)) continue;
    return Error{Code::kCorrupt,
                 Cat(where, Quoted(chat.name), ": expected UTF-8, found other bytes")};
  }
  return Ok();
}

// Two templates have one key: one of them would be lost.
Status CheckSame(const SourceTree& tree, const Template& one, const Template& other) {
  if (one.text == other.text) return Ok();
  return Error{
      Code::kCorrupt,
      Cat(tree.name(), ": chat templates: expected names that differ in letters or digits, found ",
          Quoted(one.name), " and ", Quoted(other.name))};
}

}  // namespace

Status AddChatTemplate(const TokenizerFiles& files, GgufMetadata& metadata) {
  SHARD_TRY(const std::vector<Template> templates, ReadTemplates(files));
  SHARD_CHECK(CheckTemplates(files.tree(), templates));
  std::vector<std::string> names;
  std::map<std::string, const Template*> by_key;
  for (const Template& chat : templates) {
    const std::string name = KeyName(chat.name);
    if (name.empty()) continue;
    const auto [earlier, added] = by_key.emplace(name, &chat);
    if (!added) {
      SHARD_CHECK(CheckSame(files.tree(), *earlier->second, chat));
      continue;
    }
    if (name != "default") names.push_back(name);
    metadata.Set(name == "default" ? kKey : Cat(kKey, ".", name), GgufValue::String(chat.text));
  }
  if (!names.empty()) metadata.Set("tokenizer.chat_templates", GgufValue::Strings(names));
  return Ok();
}

}  // namespace moepack
