// The figures of one benchmark run as a table, for docs/benchmarks.md and as JSON.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "tests/bench/measure.h"
#include "tests/bench/quant_report.h"

namespace bench {

enum class Verdict { kNone, kMet, kMissed };  // kNone: a figure without a target

// One line of the table.
struct Row {
  std::string work = {};      // "shard-experts, 2 GB"
  std::string measured = {};  // "3.1 s, 645 MB/s"
  std::string beside = {};    // the same for what it is compared with, "" without a comparison
  std::string figure = {};    // "0.94 of cp"
  std::string target = {};    // "at least 0.9", "" without a target
  Verdict verdict = Verdict::kNone;
};

// The samples of one command, for the JSON form.
struct Series {
  std::string name;
  std::vector<Sample> samples;
};

struct Report {
  std::string scratch;  // the file system that was measured
  std::vector<Row> rows;
  std::vector<Series> series;
  QuantFiles quant;        // tables of encoders and decoders
  std::string micro_json;  // Google Benchmark's output, read for the last table
  bool quick = false;      // small sizes: the figures only show that everything runs
};

void PrintTable(const std::vector<Row>& rows);
// REQUIRES: nothing else writes these files.
moepack::Status WriteMarkdown(const Report& report, const fs::path& path);
moepack::Status WriteReportJson(const Report& report, const fs::path& path);

}  // namespace bench
