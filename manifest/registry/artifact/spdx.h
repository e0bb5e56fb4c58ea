// Licences by their SPDX identifiers, which OCI annotations and the ModelPack config want:
// https://spdx.org/licenses/.
#pragma once

#include <string>
#include <vector>

#include "libshard/convert/license.h"

namespace moepack::registry {

// One for each licence that the authors state. What SPDX does not list gets a reference of its own,
// as in "LicenseRef-llama3.1"; an "other" licence is called by its name.
std::vector<std::string> SpdxNames(const ModelLicense& license);

}  // namespace moepack::registry
