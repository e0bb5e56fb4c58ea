// ParseOmsStatement: a parsed statement can be written and read back.
#include "libshard/base/text/text.h"
#include "manifest/registry/sign/oms.h"
#include "tests/fuzz/target.h"

namespace oms_statement_target {

constexpr const char* kWhere = "damaged/model.sig";

std::vector<std::string> Seeds() {
  using namespace moepack::registry;
  OmsStatement statement;
  statement.name = "node-1";
  statement.files = {{"distribution.json", std::string(64, 'a')},
                     {"groups/001/experts.gguf", std::string(64, '1')}};
  statement.ignored = {".git", "model.sig"};
  return {WriteOmsStatement(statement), WriteOmsStatement({"empty", {}, {}})};
}

std::string Check(std::string_view input) {
  using namespace moepack::registry;
  const auto read = ParseOmsStatement(kWhere, input);
  if (!read) return fuzz::ErrorProblem(read.error(), kWhere);
  const auto again = ParseOmsStatement(kWhere, WriteOmsStatement(*read));
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  const bool same =
      again->name == read->name && again->files == read->files && again->ignored == read->ignored;
  return same ? "" : "another statement after writing";
}

constexpr fuzz::Target kTarget{Check, Seeds, 2000, 500};

}  // namespace oms_statement_target

FUZZ_JSON_TARGET(FuzzOmsStatement, oms_statement_target::kTarget)
