#include "libshard/convert/license.h"

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack {
namespace {

// Documents are UTF-8; other bytes are escaped as in \xff.
std::string Readable(std::string_view text) {
  return IsUtf8(text) ? std::string(text) : Shown(text);
}

std::string Joined(const ModelCard& card, std::string_view key) {
  const auto found = card.find(key);
  return found == card.end() ? "" : Readable(Join(found->second, ", "));
}

std::string TextOf(const GgufMetadata& metadata, std::string_view key) {
  return Readable(metadata.String(key).value_or(""));
}

}  // namespace

ModelLicense LicenseOfCard(const ModelCard& card) {
  return {Joined(card, "license"), Joined(card, "license_name"), Joined(card, "license_link")};
}

Result<ModelLicense> LicenseOf(const MoeModel& model) {
  const GgufMetadata& metadata = model.checkpoint().metadata();
  ModelLicense license = {TextOf(metadata, kLicenseKey), TextOf(metadata, kLicenseNameKey),
                          TextOf(metadata, kLicenseLinkKey)};
  if (!license.empty()) return license;
  SHARD_TRY(const ModelCard card, ReadModelCard(*model.checkpoint().tree()));
  return LicenseOfCard(card);
}

}  // namespace moepack
