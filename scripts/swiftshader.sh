#!/usr/bin/env bash
# A Vulkan device without a graphics card: SwiftShader, which Debian ships with Chromium.
#
#   eval "$(scripts/swiftshader.sh)"         a shell uses it
#   eval "$(scripts/swiftshader.sh wgpu)"    and without what Burn's SPIR-V needs: kernels are WGSL, as on WebGPU
set -euo pipefail
cd "$(dirname "$0")"

folder=${LEANBURN_SWIFTSHADER:-$HOME/.cache/leanburn-swiftshader}
driver=$folder/libvk_swiftshader.so
layer=$folder/webgpu

packages() { apt-get -qq -y --no-install-recommends install "$@" || { apt-get -qq update && apt-get -qq -y --no-install-recommends install "$@"; }; }

install_driver() {
  ldconfig -p | grep -q libvulkan.so.1 || packages libvulkan1
  if [ ! -e "$driver" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # Readable by the user that apt downloads as.
    chmod 777 "$work"
    (cd "$work" && { apt-get -qq download chromium-common || { apt-get -qq update && apt-get -qq download chromium-common; }; })
    dpkg-deb --fsys-tarfile "$work"/chromium-common_*.deb | tar -xO ./usr/lib/chromium/libvk_swiftshader.so > "$work/driver"
    mv "$work/driver" "$driver"
  fi
  cat > "$folder/icd.json" <<JSON
{ "file_format_version": "1.0.0", "ICD": { "library_path": "$driver", "api_version": "1.3.0" } }
JSON
}

install_layer() {
  [ -e /usr/include/vulkan/vk_layer.h ] || packages libvulkan-dev
  mkdir -p "$layer"
  cc -O1 -Wall -Werror -shared -fPIC -o "$layer/layer.so" webgpu_layer.c
  cat > "$layer/layer.json" <<JSON
{ "file_format_version": "1.0.0", "layer": { "name": "VK_LAYER_LEANBURN_webgpu", "type": "GLOBAL",
  "library_path": "$layer/layer.so", "api_version": "1.3.0", "implementation_version": "1", "description": "Hides the Vulkan memory model" } }
JSON
}

mkdir -p "$folder"
install_driver >&2
# Without a display the search for GPUs would complain of that folder.
echo "export VK_ICD_FILENAMES=$folder/icd.json XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-$folder}"
if [ "${1:-}" = wgpu ]; then
  install_layer >&2
  echo "export VK_LAYER_PATH=$layer VK_INSTANCE_LAYERS=VK_LAYER_LEANBURN_webgpu"
fi
