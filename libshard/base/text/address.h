// Texts such as "scheme://host/path", whatever the scheme: which of them are read is known to
// libshard/remote.
#pragma once

#include <string>
#include <string_view>

namespace moepack {

// "ftp" of "ftp://host/path"; "" for a text that is not an address. The rest may contain secrets.
std::string_view SchemeOf(std::string_view text);

// `source` without anything that may be secret: the user and password of an address, and the query
// of a web server's. Everything else is unchanged.
std::string WithoutSecrets(const std::string& source);

}  // namespace moepack
