// Files of ranks as tiktoken writes them: tiktoken.model (Kimi) and hy.tiktoken (Hunyuan).
#include "libshard/base/files/memory_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/tokenizers/tokenizer.h"
#include "tests/fuzz/target.h"

namespace tiktoken_target {

using moepack::Cat;

constexpr uint32_t kTokens = 600;  // rows of the embedding
constexpr const char* kTree = "damaged";

// Single bytes, then pairs and triples that merges make, then one that no merge makes.
std::vector<std::string> Seeds() {
  const char* const digits[] = {"YQ==", "Yg==", "Yw==", "ZA==", "YWI=", "YWJj", "Y2Q=", "YWJjZA=="};
  std::string ranks;
  for (size_t i = 0; i < std::size(digits); ++i) ranks += Cat(digits[i], " ", i, "\n");
  return {ranks, ranks + Cat("enp6eg== ", std::size(digits), "\r\n"), "YQ== 5\n\nYg== 0"};
}

std::string VocabularyProblem(const moepack::Vocabulary& vocabulary) {
  if (vocabulary.tokens.size() != kTokens || vocabulary.types.size() != kTokens)
    return "another number of tokens than rows";
  if (vocabulary.merges.size() > kTokens) return "more merges than tokens";
  for (const std::string& merge : vocabulary.merges) {
    const size_t space = merge.find(' ');
    if (space == 0 || space == merge.npos || space + 1 == merge.size())
      return "a merge of something else than two pieces: " + merge;
    const std::string whole = merge.substr(0, space) + merge.substr(space + 1);
    if (std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), whole) ==
        vocabulary.tokens.end()) {
      return "a merge that makes no token: " + merge;
    }
  }
  return "";
}

using Reader = moepack::Result<moepack::Vocabulary> (*)(const moepack::VocabularyRequest&);

std::string ReadAs(const char* name, Reader read, std::string_view input) {
  const auto tree = std::make_shared<moepack::MemoryTree>(kTree);
  tree->Add(name, std::string(input));
  const auto files = moepack::TokenizerFiles::Read(tree);
  if (!files) return files.error().message;
  const auto vocabulary = read({*files, kTokens, "kimi-k2", ""});
  return vocabulary ? VocabularyProblem(*vocabulary) : fuzz::ErrorProblem(vocabulary.error(), name);
}

std::string Check(std::string_view input) {
  const std::string problem = ReadAs("tiktoken.model", moepack::ReadTiktokenOrBpe, input);
  if (!problem.empty()) return problem;
  return ReadAs("hy.tiktoken", moepack::ReadHunyuanRanksOrBpe, input);
}

constexpr fuzz::Target kTarget{Check, Seeds, 5000};

}  // namespace tiktoken_target

FUZZ_TARGET(FuzzTiktoken, tiktoken_target::kTarget)
