// The results of bench-quant and bench-instructions as tables of docs/benchmarks.md.
#pragma once

#include <iosfwd>
#include <string>

namespace bench {

// The JSON files that the two programs wrote; a missing one gives no table.
struct QuantFiles {
  std::string benchmarks, instructions;
};

void WriteQuantTables(std::ostream& out, const QuantFiles& files);

}  // namespace bench
