// The sections of a report. Each is in its own file; page.cc lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/page/inputs.h"

namespace moepack::cli {

struct PageSection {
  std::string id, title, body;  // the body is HTML
  // For the top of the page: sentences with numbers, as HTML.
  std::vector<std::string> findings = {};
};

// Each returns no value if the inputs have nothing to show in it.
std::optional<PageSection> BytesSection(const PageInputs& inputs);
std::optional<PageSection> RoutingSection(const PageInputs& inputs);
std::optional<PageSection> CaptureSection(const PageInputs& inputs);
std::optional<PageSection> DamageSection(const PageInputs& inputs);
std::optional<PageSection> CalibrationSection(const PageInputs& inputs);
std::optional<PageSection> RefitSection(const PageInputs& inputs);
std::optional<PageSection> ExperimentSection(const PageInputs& inputs);
std::optional<PageSection> PlacementSection(const PageInputs& inputs);
std::optional<PageSection> OverlapSection(const PageInputs& inputs);
std::optional<PageSection> NextSection(const PageInputs& inputs);
std::optional<PageSection> InputsSection(const PageInputs& inputs);

// The colour classes: eight kinds, which repeat ("k0" to "k7"), and sixteen steps of a scale for
// values from 0 to 1 ("c0" to "c15").
inline constexpr int kColourSteps = 16;
std::string KindClass(size_t index);
int StepOf(double share);
std::string StepClass(int step);
// The class of text that is readable on a step, in either mode.
std::string OnStepClass(int step);

// A matrix of values with their text in the cells.
struct PageMatrix {
  std::string label;                       // for readers who cannot see it
  std::string across, down;                // what columns and rows are
  std::vector<std::string> columns, rows;  // names; may come from anywhere
  std::vector<double> values;              // [row][column]
  double most = 1;                         // the value of the last colour
  std::string (*text)(double value);
  bool diagonal = false;  // whether its cells are outlined
};
std::string MatrixPicture(const PageMatrix& matrix);

// Bars one below the other, from 0, with whiskers where there is an error.
struct PageBar {
  std::string name;  // may come from anywhere
  double value = 0, error = 0;
  std::string css_class, tip;  // the tip goes on after the name
};
struct PageBars {
  std::string label, unit;  // for readers who cannot see it; of the axis
  std::vector<PageBar> bars;
  std::string (*text)(double value);
};
std::string BarsPicture(const PageBars& picture);

// Matrices of more groups than this are left out.
inline constexpr size_t kMostInMatrix = 256;
// Pictures with more lines than this show the first of them; the tables have all.
inline constexpr size_t kMostRows = 64;

}  // namespace moepack::cli
