// What bench-quant and bench-instructions found, as tables of docs/benchmarks.md.
#pragma once

#include <iosfwd>
#include <string>

namespace bench {

// The JSON files that the two programs wrote; one that is not there gives no table.
struct QuantFiles {
  std::string benchmarks, instructions;
};

void WriteQuantTables(std::ostream& out, const QuantFiles& files);

}  // namespace bench
