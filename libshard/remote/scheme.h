// The kinds of addresses that SRC may be: one file that defines a Scheme for each, and one line in
// the list below. All that is particular to a kind of address is in its row.
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"

namespace moepack::remote {

struct RemoteOptions;
struct Transport;

struct Scheme {
  std::string_view start;  // "hf://"; users may write it in capital letters
  std::string_view form;   // for the help: "s3://bucket/prefix"; "" if it does not offer the scheme
  // What to do where only local files are read: "download it first, `...`, then name the file".
  // `address` has no secrets.
  std::string (*download)(const std::string& address);
  // The tree behind `address`, which is as the user wrote it. Source::named has no secrets.
  Result<Source> (*open)(const Transport& transport, const std::string& address,
                         const RemoteOptions& options);
  // A hint for a text without the start that may have been meant as an address of this kind, such
  // as "owner/name"; "" for others. Null if there is nothing that looks like one.
  std::string (*meant)(const std::string& text) = nullptr;
};

// All schemes, in the order of the help.
#define SHARD_SCHEMES(ROW) \
  ROW(kHub)                \
  ROW(kHttps)              \
  ROW(kHttp)               \
  ROW(kS3)

#define SHARD_DECLARE_SCHEME(name) extern const Scheme name;
SHARD_SCHEMES(SHARD_DECLARE_SCHEME)
#undef SHARD_DECLARE_SCHEME

// Null if `text` begins with none of them.
const Scheme* FindScheme(std::string_view text);
inline bool IsAddress(std::string_view text) { return FindScheme(text) != nullptr; }

// The hint of Scheme::meant, of the first scheme that has one; "" if none has.
std::string MeantAddressHint(const std::string& text);

// For messages and the help: "hf://, https:// and s3://", and the forms, the last after "or".
std::string SchemeStarts();
std::string AddressForms();

// For schemes whose credentials are not in the address: what follows the start. kInvalidArgument
// for a user or password. REQUIRES: FindScheme(address) == &scheme.
Result<std::string_view> NameIn(const Scheme& scheme, std::string_view address);

}  // namespace moepack::remote
