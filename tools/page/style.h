// The style of a report: light or dark by the reader's setting, and for print.
#pragma once

#include <string>

namespace moepack::cli {

std::string PageStyle();

}  // namespace moepack::cli
