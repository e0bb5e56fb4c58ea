// The pages that web servers (nginx, Apache, rclone, Python) make of directories.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/remote/url.h"

namespace moepack::remote {

// Names of the files directly below `page` that the page links to, decoded, each once, sorted.
// Links to folders and to elsewhere, and names that lead outside, are left out.
std::vector<std::string> FilesOfListing(const Url& page, std::string_view html);

}  // namespace moepack::remote
