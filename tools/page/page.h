// A report as one self-contained page of HTML: no script, no network, no font.
#pragma once

#include <string>

#include "tools/page/inputs.h"

namespace moepack::cli {

// Equal inputs give equal bytes.
std::string ReportPage(const PageInputs& inputs);

// The beginning of the page: the inputs in one line, as text.
std::string PageTitle(const PageInputs& inputs);

}  // namespace moepack::cli
