// Running commands and handling trees of files for the whole-process benchmarks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libshard/base/result.h"

namespace bench {

namespace fs = std::filesystem;
using moepack::Result;
using moepack::Status;

// One run of one process, children included.
struct Sample {
  double seconds = 0;
  double cpu_seconds = 0;   // user and system, of all threads: what the machine's load cannot hide
  uint64_t peak_bytes = 0;  // ru_maxrss: resident memory at its highest, mapped files included
};

using Command = std::vector<std::string>;

// Runs `command` (looked up in PATH) with standard output to /dev/null and waits for it. An exit
// status other than 0 is an error.
Result<Sample> RunCommand(const Command& command);

double Median(std::vector<double> values);
double MedianSeconds(const std::vector<Sample>& samples);
double MedianCpuSeconds(const std::vector<Sample>& samples);
uint64_t HighestPeak(const std::vector<Sample>& samples);

uint64_t TreeBytes(const fs::path& tree);
// Flushes every file of the tree to disk (fsync), directories included, as moepack does with its
// output.
Status FlushTree(const fs::path& tree);
// Reads every file, so that it is in the page cache if it fits.
Status WarmTree(const fs::path& tree);
// Asks the kernel to drop every file of the tree from the page cache. This works for any user if
// nothing is dirty, hence it flushes first.
Status ChillTree(const fs::path& tree);

}  // namespace bench
