// The headings under which the help of a command lists its options.
#pragma once

#include <CLI/App.hpp>
#include <array>
#include <cstdint>

namespace moepack::cli {

enum class Section : uint8_t {
  kInput,
  kRegistry,
  kSelection,
  kSummary,
  kSplit,
  kMachines,
  kTypes,
  kOutput,
  kText,
  kGeneration,
  kScoring,
  kChecks,
  kResources,
  kGeneral,
};

// One title per Section, in the order in which help shows them.
inline constexpr std::array<const char*, 14> kSectionTitles = {"Input",
                                                               "Registry",
                                                               "Selection",
                                                               "Summary",
                                                               "Split",
                                                               "Machines",
                                                               "Conversion and quantization",
                                                               "Output",
                                                               "Text",
                                                               "Generation",
                                                               "Scoring",
                                                               "Checks",
                                                               "Resources",
                                                               "General"};

// Options that are added to `app` from now on belong to this section.
inline void StartSection(CLI::App& app, Section section) {
  app.option_defaults()->group(kSectionTitles[static_cast<size_t>(section)]);
}

}  // namespace moepack::cli
