#include "libshard/convert/license.h"

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack {
namespace {

std::string Joined(const ModelCard& card, std::string_view key) {
  const auto found = card.find(key);
  return found == card.end() ? "" : Join(found->second, ", ");
}

std::string TextOf(const GgufMetadata& metadata, std::string_view key) {
  return ShownUnlessUtf8(metadata.String(key).value_or(""));
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
