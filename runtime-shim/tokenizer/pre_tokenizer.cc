#include "runtime-shim/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <optional>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

// Limits for one match. The expressions here need a few steps per byte of the word that they match.
constexpr RegexOptions kOptions = {.syntax = RegexSyntax::kPerl,
                                   .machine_code = true,
                                   .max_steps = 100'000'000,
                                   .max_depth = 100'000'000,
                                   .max_heap_kib = 256u << 10};

// Appends the matches in one piece and the text between them.
Status Cut(std::string_view piece, Regex::Matcher& matcher, std::vector<std::string_view>& out) {
  size_t done = 0;
  while (done < piece.size()) {
    SHARD_TRY(const std::optional<Regex::Match> match, matcher.Find(piece, done));
    // An expression with an empty match finds no more words.
    if (!match || match->end <= match->begin) break;
    if (match->begin > done) out.push_back(piece.substr(done, match->begin - done));
    out.push_back(piece.substr(match->begin, match->end - match->begin));
    done = match->end;
  }
  if (done < piece.size()) out.push_back(piece.substr(done));
  return Ok();
}

}  // namespace

Result<Pattern> Pattern::Compile(std::string_view expression) {
  SHARD_TRY(Regex regex, Regex::Compile(expression, kOptions));
  return Pattern(std::move(regex));
}

Result<std::vector<std::string_view>> Pattern::Split(
    const std::vector<std::string_view>& pieces) const {
  Regex::Matcher matcher(regex_);
  std::vector<std::string_view> out;
  for (const std::string_view piece : pieces) {
    Status cut = Cut(piece, matcher, out);
    if (cut) continue;
    return Error{Code::kUnsupported,
                 Cat("text: expected words that can be found in few steps, found a "
                     "piece of ",
                     piece.size(), " bytes: ", cut.error().message),
                 "cut the text into shorter ones"};
  }
  return out;
}

namespace {

// Parts of the expressions. They describe what llama.cpp does for the names, which is not always
// what the models' tokenizer.json says: its matcher treats letters beyond ASCII as upper and lower
// case at once, and has no marks (\p{M}) in words unless it names them.
#define CONTRACTION R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
#define LINE_ENDS_AND_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define PUNCTUATION R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)" LINE_ENDS_AND_SPACES
#define PUNCTUATION_AND_SLASHES R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)" LINE_ENDS_AND_SPACES
// All letters except a-z, and all letters except A-Z: both include all letters beyond ASCII.
#define UPPER R"([^a-z\P{L}])"
#define LOWER R"([^A-Z\P{L}])"
#define PREFIX R"([^\r\n\p{L}\p{N}]?)"
#define CASED_WORD(suffix) PREFIX UPPER "*" LOWER "+" suffix "|" PREFIX UPPER "+" LOWER "*" suffix
#define HAN                                                                     \
  R"(\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef})" \
  R"(\x{f900}-\x{faff}\x{2f800}-\x{2fa1f})"
// Cased letters, as DeepSeek's first tokenizers list them.
#define CASED_LETTERS                                                                       \
  R"(A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293})"   \
  R"(\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386})"            \
  R"(\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f})"   \
  R"(\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba})"  \
  R"(\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a})"                 \
  R"(\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d})"                 \
  R"(\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4})"          \
  R"(\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3})"         \
  R"(\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107})" \
  R"(\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d})"  \
  R"(\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184})"  \
  R"(\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d})" \
  R"(\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e})"                 \
  R"(\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a})"                 \
  R"(\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb})"           \
  R"(\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943})"

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 = CONTRACTION "|" PREFIX R"(\p{L}+|\p{N}{1,3})" PUNCTUATION;
constexpr const char* kQwen2 = CONTRACTION "|" PREFIX R"(\p{L}+|\p{N})" PUNCTUATION;
constexpr const char* kQwen35 = CONTRACTION
    "|" PREFIX R"([\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" LINE_ENDS_AND_SPACES;
constexpr const char* kGpt4o = CASED_WORD(CONTRACTION "?") R"(|\p{N}{1,3})" PUNCTUATION_AND_SLASHES;
constexpr const char* kTekken = CASED_WORD("") R"(|\p{N})" PUNCTUATION_AND_SLASHES;
constexpr const char* kKimi =
    "[" HAN "]+|" PREFIX R"([^\P{L})" HAN "]+" CONTRACTION R"(?|\p{N}{1,3})" PUNCTUATION;
constexpr const char* kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" LINE_ENDS_AND_SPACES;

// Letters with their marks, and single spaces between them: a run of words is one piece.
constexpr const char* kExaoneMoe = CONTRACTION
    "|" PREFIX R"((?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";

struct Row {
  std::vector<std::string_view> ids;
  std::vector<std::string> steps;
  PreTokenizerTraits traits = {};
};

// Source: llama.cpp v0.5.0, with which the peer tests compare (docs/runtime-shim.md).
const std::vector<Row>& Table() {
  static const std::vector<Row> table = {
      {{"gpt-2", "olmo", "mpt", "jais", "phi-2", "trillion", "granite-docling"}, {kGpt2}},
      {{"refact", "starcoder", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"},
       {R"(\p{N})", kGpt2}},
      {{"default"}, {R"([\p{P}$+<=>^~|]+)", kGpt2, R"(\p{N}+)", "[0-9]{3}"}},
      {{"llama-bpe", "llama3", "llama-v3", "pixtral", "falcon3", "lfm2"},
       {kLlama3},
       {.whole_words = true, .add_bos = true}},
      {{"dbrx", "smaug-bpe"}, {kLlama3}},
      {{"glm4", "chatglm-bpe"}, {kLlama3}, {.default_bos = false}},
      {{"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan", "solar-open"}, {kQwen2}},
      {{"qwen35"}, {kQwen35}},
      {{"laguna"}, {R"([^\n]+|\n+)", kQwen2}},
      {{"exaone-moe"}, {kExaoneMoe}},
      // Digits in threes from the last one, then scripts of Asia, then as deepseek-v3. The first
      // digits of a run stay with what is before them, which matters for control characters. The
      // runs are cut in three steps, because one expression would look through a run again and
      // again. What was U+F900, the first of the compatibility ideographs, is U+8C48 in llama.cpp's
      // source, so the range up to U+FAFF has whatever is between.
      {{"afmoe"},
       {R"(\G\P{N}*+\p{N}++)", R"(\A\P{N}*+(?:\p{N}{1,2}(?=(?:\p{N}{3})*+\z)|\p{N}{3}))",
        R"(\G\p{N}{3})",
        R"([\x{0e40}-\x{0eff}\x{1000}-\x{109f}\x{1100}-\x{11ff}\x{1780}-\x{17ff}\x{2f00}-\x{2fdf})"
        R"(\x{3040}-\x{30ff}\x{3400}-\x{4dbf}\x{4e00}-\x{faff}\x{ff65}-\x{ff9f}]+)",
        kDeepSeek3}},
      // llama.cpp spells theirs with \s*[\r\n], which matches what \s*[\r\n]+ does, because \s has
      // line ends.
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kQwen2}},
      {{"gpt-4o", "llama4", "minimax-m2", "kanana2"}, {kGpt4o}},
      {{"tekken"}, {kTekken}, {.whole_words = true, .add_bos = true}},
      {{"kimi-k2"}, {kKimi}, {.needs_merges = false}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm"},
       {R"(\p{N}{1,3})", R"([\x{4e00}-\x{9fa5}\x{3040}-\x{30ff}]+)", kDeepSeek3}},
      // Spaces are not in the ranges even if the code points are. The fourth expression tries a run
      // of spaces only from its first one; anything else would be quadratic.
      {{"deepseek-llm"},
       {R"([\r\n])", R"(\s?[)" CASED_LETTERS "]+",
        R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3001}\x{3002}]+)",
        R"((?<!\s)\s++\z)",
        R"([\x{800}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e})"
        R"(\x{2060}-\x{2fff}\x{3001}-\x{9fa5}\x{ac00}-\x{d7ff}]+)",
        R"(\p{N}+)"}},
      {{"deepseek-coder"},
       {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
        R"([\x{800}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e})"
        R"(\x{2060}-\x{2fff}\x{3001}-\x{9fa5}\x{ac00}-\x{d7ff}]+)",
        R"(\p{N})"}},
  };
  return table;
}

// PCRE2's \s includes U+180E, which Unicode has not counted as a space since version 6.3. Brackets
// are not nested in the expressions above.
std::string WithoutVowelSeparator(std::string_view expression) {
  constexpr std::string_view kSpace = R"(\t-\r \x{85}\p{Z})";
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\') {
      const char next = expression[++i];
      if (next == 's' || next == 'S') {
        out += inside ? std::string(kSpace) : Cat(next == 's' ? "[" : "[^", kSpace, "]");
      } else {
        out += {c, next};
      }
      continue;
    }
    if (c == '[') inside = true;
    if (c == ']') inside = false;
    out += c;
  }
  return out;
}

}  // namespace

Result<PreTokenizer> PreTokenizer::Find(std::string_view id) {
  for (const Row& row : Table()) {
    if (std::find(row.ids.begin(), row.ids.end(), id) == row.ids.end()) continue;
    PreTokenizer found;
    found.traits_ = row.traits;
    for (const std::string& step : row.steps) {
      SHARD_TRY(Pattern pattern, Pattern::Compile(WithoutVowelSeparator(step)));
      found.steps_.push_back(std::move(pattern));
    }
    return found;
  }
  return Error{
      Code::kUnsupported,
      Cat("tokenizer.ggml.pre: expected a pre-tokenizer of docs/runtime-shim.md, found ",
          Quoted(id)),
      "give the ids of the text with --tokens, or add the pre-tokenizer as docs/runtime-shim.md "
      "says"};
}

Result<std::vector<std::string_view>> PreTokenizer::Split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (!text.empty()) pieces.push_back(text);
  for (const Pattern& step : steps_) {
    SHARD_TRY(pieces, step.Split(pieces));
  }
  return pieces;
}

}  // namespace moepack::runtime
