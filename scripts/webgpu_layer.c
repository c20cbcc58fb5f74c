// A Vulkan layer that hides the Vulkan memory model, which Burn's SPIR-V needs: kernels are then compiled to WGSL, WebGPU's
// language, in the same build and on the same device. `scripts/swiftshader.sh wgpu` builds it and sets it up.
#include <string.h>
#include <vulkan/vk_layer.h>

// Instances share what is behind the layer.
static PFN_vkGetInstanceProcAddr next_address;
static PFN_vkGetPhysicalDeviceFeatures2 next_features;

static VKAPI_ATTR void VKAPI_CALL features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *all) {
  next_features(device, all);
  for (VkBaseOutStructure *one = (VkBaseOutStructure *)all; one; one = one->pNext) {
    if (one->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
      ((VkPhysicalDeviceVulkan12Features *)one)->vulkanMemoryModel = VK_FALSE;
    if (one->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES)
      ((VkPhysicalDeviceVulkanMemoryModelFeatures *)one)->vulkanMemoryModel = VK_FALSE;
  }
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *callbacks, VkInstance *instance) {
  VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
  while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
    link = (VkLayerInstanceCreateInfo *)link->pNext;
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  next_address = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext; // the next layer finds its own link
  VkResult result = ((PFN_vkCreateInstance)next_address(NULL, "vkCreateInstance"))(info, callbacks, instance);
  if (result == VK_SUCCESS)
    next_features = (PFN_vkGetPhysicalDeviceFeatures2)next_address(*instance, "vkGetPhysicalDeviceFeatures2");
  return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL address(VkInstance instance, const char *name) {
  if (!strcmp(name, "vkGetInstanceProcAddr")) return (PFN_vkVoidFunction)address;
  if (!strcmp(name, "vkCreateInstance")) return (PFN_vkVoidFunction)create_instance;
  if (!strcmp(name, "vkGetPhysicalDeviceFeatures2") || !strcmp(name, "vkGetPhysicalDeviceFeatures2KHR"))
    return (PFN_vkVoidFunction)features;
  return next_address ? next_address(instance, name) : NULL;
}

VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *negotiated) {
  negotiated->loaderLayerInterfaceVersion = 2;
  negotiated->pfnGetInstanceProcAddr = address;
  negotiated->pfnGetDeviceProcAddr = NULL; // devices are not checked
  negotiated->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
