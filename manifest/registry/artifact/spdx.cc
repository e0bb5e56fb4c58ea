#include "manifest/registry/artifact/spdx.h"

#include <array>
#include <cctype>
#include <string_view>

#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

// The Hub writes the identifiers in lower case:
// https://huggingface.co/docs/hub/repositories-licenses. These are the ones that models use.
constexpr std::array<std::string_view, 29> kSpdx = {
    "Apache-2.0",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSD-3-Clause-Clear",
    "CC0-1.0",
    "CC-BY-2.0",
    "CC-BY-2.5",
    "CC-BY-3.0",
    "CC-BY-4.0",
    "CC-BY-SA-3.0",
    "CC-BY-SA-4.0",
    "CC-BY-NC-2.0",
    "CC-BY-NC-3.0",
    "CC-BY-NC-4.0",
    "CC-BY-ND-4.0",
    "CC-BY-NC-ND-3.0",
    "CC-BY-NC-ND-4.0",
    "CC-BY-NC-SA-3.0",
    "CC-BY-NC-SA-4.0",
    "GPL-2.0",
    "GPL-3.0",
    "LGPL-2.1",
    "LGPL-3.0",
    "AGPL-3.0",
    "MPL-2.0",
    "EPL-2.0",
    "ISC",
    "Unlicense",
};

// SPDX allows letters, digits, '-' and '.' in a LicenseRef.
std::string LicenseReference(std::string_view name) {
  std::string out = "LicenseRef-";
  for (const char c : name) {
    const bool allowed = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
    out += allowed ? c : '-';
  }
  return out;
}

}  // namespace

std::vector<std::string> SpdxNames(const ModelLicense& license) {
  std::vector<std::string> names;
  for (const std::string& part : Split(license.id, ',')) {
    const std::string id = part.starts_with(' ') ? part.substr(1) : part;
    if (id.empty()) continue;
    std::string name = LicenseReference(id == "other" && !license.name.empty() ? license.name : id);
    for (const std::string_view spdx : kSpdx) {
      if (Lower(spdx) == Lower(id)) name = spdx;
    }
    names.push_back(std::move(name));
  }
  if (names.empty() && !license.name.empty()) names.push_back(LicenseReference(license.name));
  return names;
}

}  // namespace moepack::registry
