// A report as one page of HTML that needs nothing beside it: no script, no network, no font.
#pragma once

#include <string>

#include "tools/page/inputs.h"

namespace moepack::cli {

// Equal inputs give equal bytes.
std::string ReportPage(const PageInputs& inputs);

// What the page begins with: the inputs in one line, as text.
std::string PageTitle(const PageInputs& inputs);

}  // namespace moepack::cli
