// The licence of a model, as its authors state it.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/convert/model_card.h"
#include "libshard/model/model.h"

namespace moepack {

// The key under which a GGUF stores it.
inline constexpr const char* kLicenseKey = "general.license";
inline constexpr const char* kLicenseNameKey = "general.license.name";
inline constexpr const char* kLicenseLinkKey = "general.license.link";

// In the Hub's terms: https://huggingface.co/docs/hub/repositories-licenses. Each may be empty.
struct ModelLicense {
  std::string id;    // "apache-2.0", "other"; several are separated by ", "
  std::string name;  // of a licence that is not on the Hub's list
  std::string link;  // link to its text
  bool empty() const { return id.empty() && name.empty() && link.empty(); }
  bool operator==(const ModelLicense&) const = default;
};

ModelLicense LicenseOfCard(const ModelCard& card);

// Reads it from general.license* of a GGUF, otherwise from the front matter of README.md. Empty if
// neither states one; kIo or kCorrupt if README.md cannot be read.
Result<ModelLicense> LicenseOf(const MoeModel& model);

}  // namespace moepack
