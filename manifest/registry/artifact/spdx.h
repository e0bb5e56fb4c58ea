// Licences by their SPDX identifiers, which OCI annotations and the ModelPack config require:
// https://spdx.org/licenses/.
#pragma once

#include <string>
#include <vector>

#include "libshard/convert/model_card.h"

namespace moepack::registry {

// One for each licence that the authors state. A licence that SPDX does not list gets its own
// reference, as in "LicenseRef-llama3.1"; an "other" licence is referred to by its name.
std::vector<std::string> SpdxNames(const ModelLicense& license);

}  // namespace moepack::registry
