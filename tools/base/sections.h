// The headings under which the help of a command lists its options.
#pragma once

#include <CLI/App.hpp>
#include <string_view>

namespace moepack::cli {

// In the order in which help shows them.
inline constexpr std::string_view kSectionTitles[] = {"Input",
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
                                                      "Refit",
                                                      "Calibration",
                                                      "Remote sources",
                                                      "Tasks",
                                                      "Resources",
                                                      "General"};

// One of the titles above: a literal that is none of them does not compile.
class Section {
 public:
  consteval Section(const char* title) : title_(title) {
    for (const std::string_view known : kSectionTitles) {
      if (known == title) return;
    }
    IsNotInTheList();
  }

  const char* title() const { return title_; }

 private:
  void IsNotInTheList();  // is not defined: it only makes the compiler stop

  const char* title_;
};

// Options that are added to `app` from now on belong to this section.
inline void StartSection(CLI::App& app, Section section) {
  app.option_defaults()->group(section.title());
}

}  // namespace moepack::cli
