// Byte-level BPE: from tokenizer.json; merges may also come from merges.txt.
#include "libshard/convert/tokenizers/tokenizer_bpe.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/convert/tokenizers/tokenizer.h"

namespace moepack {
namespace {

constexpr size_t kMaxSteps = 64;

// The steps in order, one per line, and the names for them, the usual one first. Several names can
// mean the same splitting and differ in what comes before or after it (special tokens, clean-up).
struct Row {
  std::string_view steps;
  std::vector<std::string_view> names;
};

// Regular expressions as the tokenizer.json files of the named models have them; see "Pre-tokenizer
// id" in llama.cpp's converter for the models.
const std::vector<Row>& Table() {
  static const std::vector<Row> table = {
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
       R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"qwen2", "hunyuan", "solar-open"}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
       R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"qwen35"}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"llama-bpe", "glm4", "pixtral", "lfm2"}},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
       R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)"
       R"(|\s+(?!\S)|\s+)",
       {"gpt-4o", "llama4", "minimax-m2"}},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
       R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
       R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       // llama.cpp's converter detects "pixtral" for Nemotron-3, whose vocabulary is not Tekken's.
       {"tekken", "pixtral"}},
      {"\\p{N}{1,3}\n"
       "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+\n"
       R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
       R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"deepseek-v3"}},
      {"[\\r\\n]\n"
       "<cased letters>\n"
       "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+\n"
       "\\s+$\n"
       "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+\n"
       "<digits>",
       {"deepseek-llm"}},
      // tiktoken's, for Kimi if someone converted it to a tokenizer.json.
      {R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
       R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
       R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
       R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
       R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"kimi-k2"}},
      {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
       R"(|\s*[\r\n]|\s+(?!\S)|\s+)",
       {"bailingmoe", "bailingmoe2", "llada-moe"}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})"
       R"(| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)",
       {"exaone-moe"}},
      {R"(<MergedWithNext>(?:\r?\n)+(?!\r?\n))"
       "\n"
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
       R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"laguna"}},
      {"<GPT-2>", {"gpt-2", "olmo"}},
      {"<digits>\n<GPT-2>", {"refact", "starcoder", "command-r"}},
  };
  return table;
}

// A regular expression with its line breaks written as escapes, as in most files.
std::string Spelled(const std::string& regex) {
  std::string out;
  for (const char c : regex) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
  return out;
}

bool Flag(const Json& object, const char* key, bool fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

// Cased letters, range by range, as DeepSeek's first tokenizers list them. Their files differ in
// how some of the letters are composed.
bool IsCasedLetters(const std::string& regex) {
  return regex.starts_with("\\s?[A-Za-z\u00b5\u00c0-\u00d6") && regex.ends_with("]+");
}

// The effect of one step; "" for one that changes nothing. Unknown steps are returned as they are,
// so that they match no row.
std::string StepOf(const Json& step) {
  const std::string type = TextMember(step, "type");
  if (type == "ByteLevel") {
    const std::string prefix = Flag(step, "add_prefix_space", true) ? "<prefix space>" : "";
    return prefix + (Flag(step, "use_regex", true) ? "<GPT-2>" : "");
  }
  if (type == "Digits") {
    return Flag(step, "individual_digits", false) ? "<digits>" : "<Digits>";
  }
  const auto pattern = step.find("pattern");
  if (type != "Split" || pattern == step.end() || !pattern->is_object()) return Cat("<", type, ">");
  std::string regex = Spelled(TextMember(*pattern, "Regex"));
  if (IsCasedLetters(regex)) regex = "<cased letters>";
  const std::string behavior = TextMember(step, "behavior");
  const bool invert = Flag(step, "invert", false);
  // Removing what does not match is the same: these expressions match everything.
  if ((behavior == "Isolated" && !invert) || (behavior == "Removed" && invert)) return regex;
  return Cat("<", behavior, invert ? ", inverted" : "", ">", regex);
}

// The steps of `object`, whose type may be "Sequence" with a list of them under `list`.
std::vector<Json> StepsOf(const Json& object, const char* list) {
  const bool sequence = object.is_object() && TextMember(object, "type") == "Sequence";
  const auto steps = sequence ? object.find(list) : object.end();
  const bool usable = sequence && steps != object.end() && steps->is_array();
  if (!usable || steps->size() > kMaxSteps) return {object};
  return {steps->begin(), steps->end()};
}

}  // namespace

Result<std::string> RecognisePreTokenizer(const std::string& where, const Json& pre_tokenizer,
                                          std::string_view family_pre) {
  std::vector<std::string> steps;
  for (const Json& step : StepsOf(pre_tokenizer, "pretokenizers")) {
    std::string text = step.is_object() ? StepOf(step) : "<no object>";
    if (!text.empty()) steps.push_back(std::move(text));
  }
  const std::string found = Join(steps, "\n");
  for (const Row& row : Table()) {
    if (row.steps != found) continue;
    const bool fits = std::find(row.names.begin(), row.names.end(), family_pre) != row.names.end();
    return std::string(fits ? family_pre : row.names.front());
  }
  return Error{Code::kUnsupported,
               Cat(where, ": pre_tokenizer: expected one that llama.cpp has a name for, found ",
                   Quoted(found)),
               "if you know the name, give it with --pre NAME (docs/conversion.md)"};
}

Status CheckNormalizer(const std::string& where, const Json& normalizer) {
  for (const Json& step : StepsOf(normalizer, "normalizers")) {
    if (step.is_null()) continue;
    const std::string type = step.is_object() ? TextMember(step, "type") : std::string();
    if (type == "NFC") continue;
    return Error{Code::kUnsupported,
                 Cat(where, ": normalizer: expected none or NFC, found ",
                     type.empty() ? DescribeJson(step) : Quoted(type)),
                 "the runtime would not normalise; if a pre-tokenizer of llama.cpp fits all the "
                 "same, name it with --pre NAME (docs/conversion.md)"};
  }
  return Ok();
}

namespace {

constexpr uint64_t kMaxMergesBytes = 256u << 20;
// A space in the alphabet of byte-level BPE.
constexpr std::string_view kByteSpace = "\u0120";

const Json* Member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Error WrongMerge(const std::string& where, size_t index, const std::string& found) {
  return {Code::kCorrupt, Cat(where, ": merge ", index, ": expected two pieces, found ", found)};
}

// A piece of a pair. A space in it is replaced, because it would look like the one between the
// pieces.
std::string Piece(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ') {
      out += kByteSpace;
    } else {
      out += c;
    }
  }
  return out;
}

struct Merge {
  std::string left, right;
  std::string Text() const { return Cat(Piece(left), " ", Piece(right)); }
};

// Older files have "left right", newer ones ["left", "right"].
Result<Merge> MergeOf(const std::string& where, size_t index, const Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    const bool one = space != std::string::npos && text.find(' ', space + 1) == std::string::npos;
    if (!one || space == 0 || space + 1 == text.size()) {
      return WrongMerge(where, index, Quoted(text));
    }
    return Merge{text.substr(0, space), text.substr(space + 1)};
  }
  const bool pair =
      value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string();
  if (!pair) return WrongMerge(where, index, DescribeJson(value));
  Merge merge{value[0], value[1]};
  if (merge.left.empty() || merge.right.empty()) {
    return WrongMerge(where, index, "an empty piece");
  }
  return merge;
}

// Collects merges. Each needs its two pieces and their result in the vocabulary: tokenizers refuses
// a file with one that does not, whether or not the merges are used (`ignore_merges`).
class MergeList {
 public:
  MergeList(std::string where, const Json& model) : where_(std::move(where)) {
    const Json* vocab = Member(model, "vocab");
    for (const auto& [text, id] : vocab->items()) known_.insert(text);
    const Json* prefix = Member(model, "continuing_subword_prefix");
    if (prefix != nullptr && prefix->is_string()) prefix_ = prefix->get<std::string>();
  }

  Status Add(const Json& value) {
    SHARD_TRY(const Merge merge, MergeOf(where_, merges_.size(), value));
    // A piece that continues a word has this prefix, which the result has only once.
    const bool continues = !prefix_.empty() && merge.right.starts_with(prefix_);
    const std::string result = merge.left + merge.right.substr(continues ? prefix_.size() : 0);
    for (const std::string* piece : {&merge.left, &merge.right, &result}) {
      if (known_.contains(*piece)) continue;
      return Error{Code::kCorrupt, Cat(where_, ": merge ", merges_.size(), " (", Quoted(merge.left),
                                       ", ", Quoted(merge.right), "): expected ", Quoted(*piece),
                                       " in the vocabulary, found no such token")};
    }
    merges_.push_back(merge.Text());
    return Ok();
  }
  std::vector<std::string> Take() { return std::move(merges_); }

 private:
  std::string where_, prefix_;
  TextSet<std::string> known_;
  std::vector<std::string> merges_;
};

Result<std::vector<std::string>> ReadMergesText(const TokenizerFiles& files, const Json& model) {
  if (!files.HasFile("merges.txt")) {
    return Error{Code::kCorrupt, Cat(files.PathOf("tokenizer.json"),
                                     ": model.merges: expected the merges, here or in merges.txt, "
                                     "found none")};
  }
  const std::string path = files.PathOf("merges.txt");
  SHARD_TRY(const std::string text, files.tree().ReadText("merges.txt", kMaxMergesBytes));
  MergeList merges(path, model);
  bool first = true;
  for (std::string& line : Split(text, '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || (first && line.starts_with("#version"))) continue;
    first = false;
    SHARD_CHECK(merges.Add(Json(line)));
  }
  return merges.Take();
}

TokenType Normal(std::string_view) { return TokenType::kNormal; }

// tokenizer.json takes precedence; tokenizer_config.json may have more tokens.
Status AddTokens(const TokenizerFiles& files, Vocabulary& vocabulary) {
  for (const AddedToken& token : files.decoder()) {
    SHARD_CHECK(SetAddedToken(files.PathOf("tokenizer_config.json"), token, vocabulary));
  }
  for (const AddedToken& token : files.added()) {
    SHARD_CHECK(SetAddedToken(files.PathOf("tokenizer.json"), token, vocabulary));
  }
  return Ok();
}

// A user who names the pre-tokenizer is also responsible for the normalizer.
Result<std::string> PreOf(const VocabularyRequest& request, const std::string& where) {
  if (!request.given_pre.empty()) return request.given_pre;
  const Json* normalizer = request.files.Tokenizer("normalizer");
  if (normalizer != nullptr) SHARD_CHECK(CheckNormalizer(where, *normalizer));
  const Json* pre = request.files.Tokenizer("pre_tokenizer");
  const Json none;
  return RecognisePreTokenizer(where, pre == nullptr ? none : *pre, request.family_pre);
}

}  // namespace

Result<std::vector<std::string>> ReadMerges(const TokenizerFiles& files, const Json& model) {
  const Json* list = Member(model, "merges");
  if (list == nullptr) return ReadMergesText(files, model);
  const std::string where = Cat(files.PathOf("tokenizer.json"), ": model.merges");
  if (!list->is_array()) {
    return Error{Code::kCorrupt, Cat(where, ": expected a list, found ", DescribeJson(*list))};
  }
  MergeList merges(where, model);
  for (const Json& value : *list) SHARD_CHECK(merges.Add(value));
  return merges.Take();
}

Result<Vocabulary> ReadBpe(const VocabularyRequest& request) {
  const TokenizerFiles& files = request.files;
  const std::string where = files.PathOf("tokenizer.json");
  if (files.tokenizer() == nullptr) {
    return Error{Code::kNotFound, Cat(where, ": expected the tokenizer, found no such file"),
                 "download tokenizer.json and tokenizer_config.json of the model"};
  }
  const Json* model = files.Tokenizer("model");
  const Json* type = model != nullptr && model->is_object() ? Member(*model, "type") : nullptr;
  // Old files omit the type.
  const std::string found = type == nullptr ? "\"BPE\"" : DescribeJson(*type);
  const Json* fallback =
      model == nullptr || !model->is_object() ? nullptr : Member(*model, "byte_fallback");
  const bool bytes = fallback == nullptr || *fallback == false;
  if (model == nullptr || !model->is_object() || found != "\"BPE\"" || !bytes) {
    return Error{Code::kUnsupported,
                 Cat(where, ": model: expected byte-level BPE, found ",
                     bytes ? found : "BPE with byte fallback"),
                 "this version converts byte-level BPE and SentencePiece (tokenizer.model)"};
  }
  Vocabulary vocabulary = PaddedVocabulary(request.tokens);
  vocabulary.model = "gpt2";
  SHARD_TRY(vocabulary.pre, PreOf(request, where));
  SHARD_CHECK(SetVocab(where, *model, Normal, vocabulary));
  SHARD_CHECK(AddTokens(files, vocabulary));
  SHARD_TRY(vocabulary.merges, ReadMerges(files, *model));
  return vocabulary;
}

// Gemma-4's tokenizer.json: BPE over characters, with byte tokens for characters that are not in
// the vocabulary.

namespace {

// These are always shown, because parsers of answers look for them; llama.cpp's converter lists
// them for Gemma-4.
constexpr std::array<std::string_view, 7> kVisible = {
    "<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
    "<|tool_response>", "<tool_response|>", "<|\"|>"};

bool IsCharacterBpe(const Json* model) {
  if (model == nullptr || !model->is_object() || TextMember(*model, "type") != "BPE") return false;
  const auto fallback = model->find("byte_fallback");
  return fallback != model->end() && *fallback == true;
}

// The texts of the special tokens in tokenizer_config.json: of all keys that end in "_token", and
// of the lists of additional ones.
std::set<std::string> SpecialTexts(const TokenizerFiles& files) {
  std::set<std::string> texts;
  if (files.config() == nullptr) return texts;
  const auto add = [&](const Json& value) {
    if (value.is_string()) texts.insert(value.get<std::string>());
    if (value.is_object()) texts.insert(TextMember(value, "content"));
  };
  for (const auto& [key, value] : files.config()->items()) {
    if (key.ends_with("_token")) add(value);
    if (key != "extra_special_tokens" && key != "additional_special_tokens") continue;
    if (!value.is_array()) continue;
    for (const Json& text : value) add(text);
  }
  return texts;
}

// Tokens beside the actual vocabulary are user-defined; control tokens are those that the config
// names, whatever tokenizer.json says about them.
Status AddBeside(const TokenizerFiles& files, const std::string& where, Vocabulary& vocabulary) {
  for (const AddedToken& token : files.added()) {
    const bool known =
        token.id < vocabulary.types.size() && vocabulary.types[token.id] != TokenType::kUnused;
    if (!known) SHARD_CHECK(SetToken(where, token, TokenType::kUserDefined, vocabulary));
  }
  const std::set<std::string> specials = SpecialTexts(files);
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    const bool visible = std::find(kVisible.begin(), kVisible.end(), text) != kVisible.end();
    if (visible) {
      vocabulary.types[id] = TokenType::kUserDefined;
    } else if (specials.contains(text)) {
      vocabulary.types[id] = TokenType::kControl;
    }
  }
  return Ok();
}

}  // namespace

Result<Vocabulary> ReadCharacterBpe(const VocabularyRequest& request) {
  const TokenizerFiles& files = request.files;
  const std::string where = files.PathOf("tokenizer.json");
  if (files.tokenizer() == nullptr) {
    return Error{Code::kNotFound, Cat(where, ": expected the tokenizer, found no such file"),
                 "download tokenizer.json and tokenizer_config.json of the model"};
  }
  const Json* model = files.Tokenizer("model");
  if (!IsCharacterBpe(model)) {
    return Error{Code::kUnsupported,
                 Cat(where, ": model: expected BPE with byte fallback, as Gemma-4 has, found ",
                     model == nullptr ? "none" : "another")};
  }
  Vocabulary vocabulary = PaddedVocabulary(request.tokens);
  vocabulary.model = "gemma4";
  vocabulary.pre = request.given_pre;
  SHARD_CHECK(SetVocab(where, *model, NormalOrByte, vocabulary));
  SHARD_CHECK(AddBeside(files, where, vocabulary));
  SHARD_TRY(vocabulary.merges, ReadMerges(files, *model));
  vocabulary.scores.assign(vocabulary.tokens.size(), kLostScore);
  return vocabulary;
}

}  // namespace moepack
