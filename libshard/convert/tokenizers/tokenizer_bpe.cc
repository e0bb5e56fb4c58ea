// Byte-level BPE: from tokenizer.json; merges may also come from merges.txt.
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/convert/tokenizers/pre_tokenizer.h"
#include "libshard/convert/tokenizers/tokenizer.h"

namespace moepack {
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

}  // namespace moepack
