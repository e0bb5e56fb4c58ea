// ProvedFiles: any notes of `verify --resume`. Whatever they hold, a file that no run added has not
// proved right, and one that is added is there the next time.
#include "manifest/verify/proved_files.h"

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "tests/fuzz/target.h"

namespace proved_files_target {

using moepack::manifest::ProvedFiles;

constexpr const char* kName = "notes";

std::vector<std::string> Seeds() {
  const std::string head = "moepack-verify 1\n", digest = "0123456789abcdef0123456789abcdef";
  return {"", head, head + digest + "\n" + std::string(32, 'a') + "\n", head + digest + "\n0123"};
}

std::string Check(std::string_view input) {
  static const fixtures::TempDir dir;
  const std::filesystem::path path = dir / kName;
  if (!fuzz::WriteInput(path, input)) return "cannot write the input";
  auto notes = ProvedFiles::Open(path);
  if (!notes) return fuzz::ErrorProblem(notes.error(), kName);
  // It depends on the input: libFuzzer copies what is compared into its inputs, and would soon add
  // the line of a file that is always the same.
  const std::string sha256 = moepack::Sha256Hex(input);
  const ProvedFiles::File file{"trunk/trunk.gguf", sha256, "1 2 3 4", false};
  ProvedFiles::File cold = file;
  cold.cold = true;
  if (notes->Has(file) || notes->Has(cold)) return "a file that nobody added has proved right";
  if (!notes->Add(file)) return "Add failed";
  const auto again = ProvedFiles::Open(path);
  if (!again) return moepack::Cat("refused after Add: ", again.error().message);
  if (!again->Has(file)) return "a file that was added is not there";
  return again->Has(cold) ? "another file than the one that was added" : "";
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace proved_files_target

FUZZ_TARGET(FuzzProvedFiles, proved_files_target::kTarget)
