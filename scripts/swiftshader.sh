#!/usr/bin/env bash
# A Vulkan device without a graphics card: SwiftShader, which Debian ships with Chromium.
#
# Prints the line that makes a shell use it:  eval "$(scripts/swiftshader.sh)"
set -euo pipefail

folder=${LEANBURN_SWIFTSHADER:-$HOME/.cache/leanburn-swiftshader}
library=$folder/libvk_swiftshader.so

install() {
  if ! ldconfig -p | grep -q libvulkan.so.1; then
    apt-get update -qq && apt-get install -qq -y --no-install-recommends libvulkan1
  fi
  if [ ! -e "$library" ]; then
    mkdir -p "$folder"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # Readable by the user that apt downloads as.
    chmod 777 "$work"
    (cd "$work" && { apt-get -qq download chromium-common || { apt-get update -qq && apt-get -qq download chromium-common; }; })
    dpkg-deb --fsys-tarfile "$work"/chromium-common_*.deb | tar -xO ./usr/lib/chromium/libvk_swiftshader.so > "$work/library"
    mv "$work/library" "$library"
  fi
  cat > "$folder/icd.json" <<JSON
{ "file_format_version": "1.0.0", "ICD": { "library_path": "$library", "api_version": "1.3.0" } }
JSON
}

install >&2
echo "export VK_ICD_FILENAMES=$folder/icd.json"
