// The pages that web servers (nginx, Apache, rclone, Python) generate for directories.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/remote/http/url.h"

namespace moepack::remote {

// Names of the files directly below `page` that the page links to, decoded, without duplicates,
// sorted. Links to folders or elsewhere, and names that lead outside, are left out.
std::vector<std::string> FilesOfListing(const Url& page, std::string_view html);

}  // namespace moepack::remote
