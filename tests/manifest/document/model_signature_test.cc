#include "manifest/document/model_signature.h"

#include <gmock/gmock.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/base64.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

std::string Golden() {
  return fixtures::ReadFile(MOEPACK_SOURCE_DIR "/fixtures/signing/model/model.sig");
}

// A bundle around any statement.
std::string Bundle(std::string_view statement) {
  return Cat(R"({"mediaType": ")", kBundleType, R"(", "dsseEnvelope": {"payloadType": ")",
             kEnvelopeType, R"(", "payload": ")", EncodeBase64(std::string(statement)),
             R"(", "signatures": [{"sig": "AAAA"}]}})");
}

TEST(ModelSignature, OpensTheGoldenBundle) {
  const auto bundle = ParseSignatureBundle("it", Golden());
  ASSERT_TRUE(bundle) << bundle.error().message;
  EXPECT_THAT(bundle->payload, HasSubstr(kModelSigningType));
  EXPECT_FALSE(bundle->signature.empty());
}

TEST(ModelSignature, IsRecognizedByWhatItStates) {
  EXPECT_TRUE(IsModelSignature(Golden()));
  EXPECT_TRUE(IsModelSignature(Bundle(Cat(R"({"predicateType": ")", kModelSigningType, "\"}"))));
  for (const char* statement : {R"({"predicateType": "https://slsa.dev/provenance/v1"})",
                                R"({"predicateType": 1})", "{}", "[]", ""})
    EXPECT_FALSE(IsModelSignature(Bundle(statement))) << statement;
  for (const char* text : {"", "x", "{}", "[]", "-----BEGIN PRIVATE KEY-----\n"})
    EXPECT_FALSE(IsModelSignature(text)) << text;
}

}  // namespace
}  // namespace moepack::manifest
