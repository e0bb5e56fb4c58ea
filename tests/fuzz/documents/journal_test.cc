// Journal::Open: whatever a killed run left, the listed entries are well formed and the run can be
// resumed.
#include "libshard/base/files/journal.h"

#include "fixtures/temp_dir.h"
#include "tests/fuzz/target.h"

namespace journal_target {

constexpr const char* kName = ".journal";
const std::string kDigest = "0123456789abcdef0123456789abcdef";

std::vector<std::string> Seeds() {
  const std::string head = "moepack-journal 1 identity\n";
  return {head, head + "0 0 " + kDigest + "\n0 1 " + kDigest + "\n1 0 " + kDigest + "\n",
          head + "1 0 " + kDigest + "\n0 0 " + kDigest + "\n1 1 " + kDigest + "\n1 0 " + kDigest,
          head + "3 0 " + kDigest + "\n3 1 0123"};
}

// Opening repairs a truncated last line; after that, opening changes nothing, and an added tensor
// is there the next time.
std::string AppendProblem(const moepack::InsideDirectory& directory) {
  auto journal = moepack::Journal::Open(directory, kName);
  if (!journal) return moepack::Cat("refused after mending: ", journal.error().message);
  auto expected = journal->finished();
  if (expected.empty()) expected.emplace_back();
  if (!journal->Add(0, expected[0].size(), kDigest)) return "Add failed";
  expected[0].push_back(kDigest);
  const auto again = moepack::Journal::Open(directory, kName);
  if (!again) return moepack::Cat("refused after Add: ", again.error().message);
  return again->finished() == expected ? "" : "other tensors after Add";
}

std::string Check(std::string_view input) {
  static const fixtures::TempDir dir;
  const std::filesystem::path path = dir / kName;
  if (!fuzz::WriteInput(path, input)) return "cannot write the input";
  const auto directory = moepack::InsideDirectory::Open(dir.path()).value();
  const auto journal = moepack::Journal::Open(directory, kName);
  if (!journal) return fuzz::ErrorProblem(journal.error(), kName);
  for (const auto& digests : journal->finished()) {
    for (const std::string& digest : digests) {
      if (digest.size() != kDigest.size()) return "a digest of another length";
    }
  }
  return AppendProblem(directory);
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace journal_target

FUZZ_TARGET(FuzzJournal, journal_target::kTarget)
