// Keys as PEM: public ones, which come from anywhere, and private ones. Damage also goes behind the
// base64, into the DER.
#include "manifest/registry/sign/keys.h"

#include "fixtures/temp_dir.h"
#include "libshard/base/text/base64.h"
#include "libshard/base/text/text.h"
#include "tests/fuzz/target.h"

namespace keys_target {

using namespace moepack::registry;

constexpr const char* kName = "damaged.pub";

std::string Fixture(const char* name) {
  return fixtures::ReadFile(std::string(MOEPACK_SOURCE_DIR "/fixtures/signing/") + name);
}

std::vector<std::string> Seeds() {
  return {Fixture("p256-for-tests-only.pub"), Fixture("ed25519-for-tests-only.pub"),
          Fixture("p256-for-tests-only.key"), Fixture("ed25519-for-tests-only.key")};
}

// Two keys in one file, bytes behind a key, a point that is not on the curve, and a key whose
// passphrase is missing.
std::vector<std::string> Refused() {
  const std::string pub = Fixture("p256-for-tests-only.pub");
  const auto encrypted = PrivateKey::Generate(KeyType::kEd25519)
                             .value()
                             .Pem(moepack::registry::Secret("a passphrase"));
  return {pub + pub, "-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----\n",
          "-----BEGIN PUBLIC KEY-----\n"
          "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEarzO2E+Jm96dzwpZhzVWtNRD/e+1\n"
          "dlIgPpfA5X7RsRChBMIX6IQIujxeV29+pqyvOnzsLiU1cQnwy5ICZU4f7A==\n"
          "-----END PUBLIC KEY-----\n",
          std::string(encrypted.value().text())};
}

// Changes one to three bytes of the DER, or its length.
std::string ChangeDer(const std::string& pem, uint64_t seed) {
  fuzz::Random random(seed);
  const size_t begin = pem.find('\n'), end = pem.rfind("\n-----END");
  if (begin == pem.npos || end == pem.npos || end <= begin) return pem;
  std::string digits = pem.substr(begin + 1, end - begin - 1);
  std::erase(digits, '\n');
  auto der = moepack::DecodeBase64(digits);
  if (!der || der->empty()) return pem;
  for (size_t changes = 1 + random.Below(3); changes > 0 && !der->empty(); --changes) {
    const size_t kind = random.Below(8), at = random.Below(der->size());
    if (kind == 0) {
      der->resize(at);
    } else if (kind == 1) {
      der->insert(at, 1, static_cast<char>(random.Below(256)));
    } else {
      (*der)[at] = static_cast<char>((*der)[at] ^ (1 << random.Below(8)));
    }
  }
  // OpenSSL reads lines of any length up to 254 characters.
  std::string text = pem.substr(0, begin + 1);
  const std::string changed = moepack::EncodeBase64(*der);
  for (size_t i = 0; i < changed.size(); i += 64) text += changed.substr(i, 64) + "\n";
  return text + pem.substr(end + 1);
}

std::string PublicProblem(std::string_view input) {
  const auto key = PublicKey::Parse(kName, input);
  if (!key) return fuzz::ErrorProblem(key.error(), kName);
  if (key->id().size() != 64) return "an id of another length";
  if (key->Verify("a message", input) || key->Verify("", "")) return "a signature that is none";
  const auto again = PublicKey::Parse(kName, key->pem());
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  const bool same = again->id() == key->id() && again->type() == key->type();
  return same && again->pem() == key->pem() ? "" : "another key after writing";
}

std::string PrivateProblem(std::string_view input) {
  const auto key = PrivateKey::Parse(kName, input, {});
  if (!key) return fuzz::ErrorProblem(key.error(), kName);
  const auto signature = key->Sign("a message");
  if (!signature) return signature.error().message;
  if (!key->public_key().Verify("a message", *signature)) return "a signature that is not its own";
  if (key->public_key().Verify("another", *signature)) return "a signature of another message";
  const auto pem = key->Pem({});
  if (!pem) return pem.error().message;
  const auto again = PrivateKey::Parse(kName, pem->text(), {});
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  return again->public_key().id() == key->public_key().id() ? "" : "another key after writing";
}

std::string Check(std::string_view input) {
  const std::string problem = PublicProblem(input);
  return problem.empty() ? PrivateProblem(input) : problem;
}

bool Accepts(std::string_view input) {
  return PublicKey::Parse(kName, input).has_value() ||
         PrivateKey::Parse(kName, input, {}).has_value();
}

constexpr fuzz::Target kTarget{.check = Check,
                               .seeds = Seeds,
                               .iterations = 3000,
                               .restructure = ChangeDer,
                               .accepts = Accepts,
                               .refused = Refused};

}  // namespace keys_target

FUZZ_STRUCTURE_TARGET(FuzzKeys, keys_target::kTarget)
