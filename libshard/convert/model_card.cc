#include "libshard/convert/model_card.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/hf_config.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxCardBytes = 16u << 20;
constexpr const char* kCard = "README.md";
constexpr std::string_view kFence = "---";
constexpr std::string_view kBlank = " \t\r";

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Returns a scalar without quotes and comment; "" for anything else (a map, an anchor, block text).
std::string Scalar(std::string_view text) {
  text = Trim(text);
  if (text.empty()) return {};
  const char quote = text.front();
  if (quote == '"' || quote == '\'') {
    const size_t end = text.find(quote, 1);
    return end == std::string_view::npos ? std::string() : std::string(text.substr(1, end - 1));
  }
  if (std::string_view("[]{}|>&*!%@`").find(quote) != std::string_view::npos) return {};
  if (const size_t comment = text.find(" #"); comment != std::string_view::npos) {
    text = Trim(text.substr(0, comment));
  }
  const bool map = text.find(": ") != std::string_view::npos || text.ends_with(':');
  return map || text == "null" || text == "~" ? std::string() : std::string(text);
}

void AddScalar(std::string_view text, std::vector<std::string>& out) {
  const std::string scalar = Scalar(text);
  if (!scalar.empty()) out.push_back(ShownUnlessUtf8(scalar));
}

// Returns where the first item of a list ends: at the first comma outside quotes.
size_t ItemEnd(std::string_view list) {
  const std::string_view item = Trim(list);
  size_t start = 0;
  if (item.starts_with('"') || item.starts_with('\'')) {
    const size_t quote = list.find(item.front());
    start = std::min(list.find(item.front(), quote + 1), list.size());
  }
  return std::min(list.find(',', start), list.size());
}

// Adds what follows "key:", which may be a list in brackets.
void AddValue(std::string_view text, std::vector<std::string>& out) {
  text = Trim(text);
  if (!text.starts_with('[') || !text.ends_with(']')) return AddScalar(text, out);
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const size_t end = ItemEnd(text);
    AddScalar(text.substr(0, end), out);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

ModelCard ParseModelCard(std::string_view text) {
  ModelCard card;
  const std::vector<std::string> lines = Split(text, '\n');
  if (Trim(lines.front()) != kFence) return card;
  const auto fence = [](const std::string& line) { return Trim(line) == kFence; };
  const auto end = std::find_if(lines.begin() + 1, lines.end(), fence);
  if (end == lines.end()) return card;
  std::vector<std::string>* open = nullptr;  // the list that "- " lines are added to
  for (auto line = lines.begin() + 1; line != end; ++line) {
    const std::string_view trimmed = Trim(*line);
    if (trimmed.empty() || trimmed.starts_with('#')) continue;
    if (trimmed.starts_with("- ")) {
      if (open != nullptr) AddScalar(trimmed.substr(2), *open);
      continue;
    }
    // Indented lines belong to something nested.
    const bool top = line->front() != ' ' && line->front() != '\t';
    const size_t colon = trimmed.find(':');
    open = nullptr;
    if (!top || colon == std::string_view::npos) continue;
    std::vector<std::string>& values = card[std::string(trimmed.substr(0, colon))];
    const std::string_view value = trimmed.substr(colon + 1);
    AddValue(value, values);
    if (Trim(value).empty()) open = &values;
  }
  return card;
}

Result<ModelCard> ReadModelCard(const SourceTree& tree) {
  // A server may refuse to serve a missing file, so the tree's list decides whether it is absent.
  SHARD_TRY(const std::vector<std::string> cards, tree.List("", kCard));
  if (std::find(cards.begin(), cards.end(), kCard) == cards.end()) return ModelCard();
  SHARD_TRY(const std::string text, tree.ReadText(kCard, kMaxCardBytes));
  return ParseModelCard(text);
}

namespace {

std::string Joined(const ModelCard& card, std::string_view key) {
  const auto found = card.find(key);
  return found == card.end() ? "" : Join(found->second, ", ");
}

std::string TextOf(const GgufMetadata& metadata, std::string_view key) {
  return ShownUnlessUtf8(metadata.String(key).value_or(""));
}

}  // namespace

ModelLicense LicenseOfCard(const ModelCard& card) {
  return {Joined(card, "license"), Joined(card, "license_name"), Joined(card, "license_link")};
}

Result<ModelLicense> LicenseOf(const MoeModel& model) {
  const GgufMetadata& metadata = model.checkpoint().metadata();
  ModelLicense license = {TextOf(metadata, kLicenseKey), TextOf(metadata, kLicenseNameKey),
                          TextOf(metadata, kLicenseLinkKey)};
  if (!license.empty()) return license;
  SHARD_TRY(const ModelCard card, ReadModelCard(*model.checkpoint().tree()));
  return LicenseOfCard(card);
}

namespace {

constexpr std::string_view kHub = "https://huggingface.co/";
// Far more than any card names; each becomes up to three keys.
constexpr size_t kMostOrigins = 1024;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsLower(std::string_view word) {
  const auto upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return std::none_of(word.begin(), word.end(), upper) &&
         std::any_of(word.begin(), word.end(), lower);
}

// Like Python's str.title: capitalises each letter that follows a non-letter.
std::string Capitalized(std::string word) {
  bool inside = false;
  for (char& c : word) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter && !inside && c >= 'a') c = static_cast<char>(c - 'a' + 'A');
    inside = letter;
  }
  return word;
}

// True for "v3", "v0.1" and words that begin with a digit.
bool IsVersion(std::string_view word) {
  if (!word.empty() && IsDigit(word.front())) return true;
  return word.size() > 1 && word.front() == 'v' && IsDigit(word.back()) &&
         std::all_of(word.begin() + 1, word.end(), [](char c) { return IsDigit(c) || c == '.'; });
}

// True for "owner/name" on the Hub, and false for a path on the machine that wrote config.json.
bool IsHubId(std::string_view id) {
  const auto allowed = [](char c) {
    return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
           c == '.' || c == '/';
  };
  return std::count(id.begin(), id.end(), '/') == 1 && id.front() != '/' && id.front() != '.' &&
         id.back() != '/' && std::all_of(id.begin(), id.end(), allowed);
}

std::string NameOf(const ModelCard& card, const ModelNames& names) {
  const auto told = card.find("model_name");
  if (told != card.end() && !told->second.empty()) return told->second.front();
  return TitleOf(IsHubId(names.name_or_path) ? NameOfId(names.name_or_path) : names.family);
}

// Adds the keys of one base model or data set, "organisation/name" on the Hub.
void AddOrigin(const std::string& prefix, const std::string& id, GgufMetadata& metadata) {
  const size_t slash = id.find('/');
  const bool on_hub = slash != std::string::npos && id.find("://") == std::string::npos;
  metadata.Set(prefix + ".name",
               GgufValue::String(TitleOf(on_hub ? std::string_view(id).substr(slash + 1) : id)));
  if (!on_hub) return;
  metadata.Set(prefix + ".organization", GgufValue::String(TitleOf(id.substr(0, slash))));
  metadata.Set(prefix + ".repo_url", GgufValue::String(Cat(kHub, id)));
}

void AddCard(const ModelCard& card, GgufMetadata& metadata) {
  const auto values = [&](std::string_view key) {
    const auto found = card.find(key);
    return found == card.end() ? std::vector<std::string>() : found->second;
  };
  const ModelLicense license = LicenseOfCard(card);
  for (const auto& [text, key] :
       {std::pair(&license.id, kLicenseKey), std::pair(&license.name, kLicenseNameKey),
        std::pair(&license.link, kLicenseLinkKey)}) {
    if (!text->empty()) metadata.Set(key, GgufValue::String(*text));
  }
  for (const auto& [field, key] :
       {std::pair("base_model", "general.base_model"), std::pair("datasets", "general.dataset")}) {
    std::vector<std::string> found = values(field);
    found.resize(std::min(found.size(), kMostOrigins));
    if (found.empty()) continue;
    metadata.Set(Cat(key, ".count"), GgufValue::U32(static_cast<uint32_t>(found.size())));
    for (size_t i = 0; i < found.size(); ++i) AddOrigin(Cat(key, ".", i), found[i], metadata);
  }
  std::vector<std::string> tags = values("tags");
  for (const std::string& tag : values("pipeline_tag")) tags.push_back(tag);
  if (!tags.empty()) metadata.Set("general.tags", GgufValue::Strings(tags));
  const std::vector<std::string> languages = values("language");
  if (!languages.empty()) metadata.Set("general.languages", GgufValue::Strings(languages));
}

// Adds the sampling options that the model's authors recommend.
Status AddSampling(const SourceTree& tree, GgufMetadata& metadata) {
  const std::string name = "generation_config.json";
  SHARD_TRY(const bool there, tree.Has(name));
  if (!there) return Ok();
  SHARD_TRY(const std::string text, tree.ReadText(name, kMaxConfigBytes));
  SHARD_TRY(const HfConfig config, HfConfig::Parse(tree.NameOf(name), text));
  SHARD_TRY(const std::optional<uint32_t> top_k, config.FindU32({"top_k"}));
  if (top_k && *top_k <= INT32_MAX) {
    metadata.Set("general.sampling.top_k", GgufValue::I32(static_cast<int32_t>(*top_k)));
  }
  constexpr std::pair<const char*, const char*> kFloats[] = {
      {"top_p", "general.sampling.top_p"},
      {"min_p", "general.sampling.min_p"},
      {"temperature", "general.sampling.temp"},
      {"repetition_penalty", "general.sampling.penalty_repeat"}};
  for (const auto& [field, key] : kFloats) {
    SHARD_TRY(const std::optional<float> value, config.FindF32({field}));
    if (value) metadata.Set(key, GgufValue::F32(*value));
  }
  return Ok();
}

// Rounds to at least two digits: 1.3M, 21M, 235B. The result is that of
// model_weight_count_rounded_notation in llama.cpp's gguf-py.
std::string RoundedCount(double count) {
  struct Unit {
    double size;
    char letter;
  };
  constexpr Unit kUnits[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
  const Unit* unit = kUnits;
  while (unit->letter != 'K' && count <= unit->size) ++unit;
  const double scaled = count / unit->size;
  // A leading zero does not count as a digit.
  const double whole = std::nearbyint(scaled);
  const int decimals = whole < 1 ? 2 : whole < 10 ? 1 : 0;
  std::array<char, 48> text = {};
  std::snprintf(text.data(), text.size(), "%.*f%c", decimals, scaled, unit->letter);
  return text.data();
}

}  // namespace

std::string_view NameOfId(std::string_view id) { return id.substr(id.rfind('/') + 1); }

std::string TitleOf(std::string_view name) {
  std::string spaced(name);
  std::replace(spaced.begin(), spaced.end(), '-', ' ');
  std::vector<std::string> words;
  for (std::string& word : Split(spaced, ' ')) {
    if (word.empty()) continue;
    words.push_back(IsLower(word) && !IsVersion(word) ? Capitalized(word) : word);
  }
  return Join(words, " ");
}

Status AddGeneralKeys(const SourceTree& tree, std::string_view architecture,
                      const ModelNames& names, GgufMetadata& metadata) {
  metadata.Set("general.architecture", GgufValue::String(architecture));
  metadata.Set("general.type", GgufValue::String("model"));
  SHARD_CHECK(AddSampling(tree, metadata));
  SHARD_TRY(const ModelCard card, ReadModelCard(tree));
  const std::string name = NameOf(card, names);
  if (!name.empty()) metadata.Set("general.name", GgufValue::String(name));
  AddCard(card, metadata);
  return Ok();
}

void AddSizeLabel(const std::vector<GgufTensor>& tensors, GgufMetadata& metadata) {
  uint64_t shared = 0, one_expert = 0, experts = 0;
  for (const GgufTensor& tensor : tensors) {
    const bool routed = tensor.part == Part::kExpert && tensor.expert_count > 0;
    (routed ? one_expert : shared) += tensor.elements() / (routed ? tensor.expert_count : 1);
    experts = std::max<uint64_t>(experts, routed ? tensor.expert_count : 0);
  }
  const std::string size = RoundedCount(static_cast<double>(shared + one_expert));
  metadata.Set("general.size_label",
               GgufValue::String(experts > 0 ? Cat(experts, "x", size) : size));
}

}  // namespace moepack
