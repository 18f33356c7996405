/* Asks the installed library how much workspace forward and backward need. */
#include <flamia/flamia.h>

#include <stdio.h>

int main(void) {
  int32_t cu[] = {0, 100, 300};
  flamia_offsets offsets = {0};
  flamia_attention_config config;
  uint64_t bytes = 0, backward = 0;
  offsets.data = cu;
  offsets.count = 3;
  offsets.element_bytes = 4;
  flamia_attention_config_init(&config);
  if (flamia_attention_workspace_size(&config, &offsets, &bytes) != FLAMIA_OK ||
      flamia_backward_workspace_size(&config, &offsets, &backward) !=
          FLAMIA_OK) {
    printf("%s\n", flamia_last_error());
    return 1;
  }
  printf("workspace %llu, backward %llu\n", (unsigned long long)bytes,
         (unsigned long long)backward);
  config.head_dim = 80;
  if (flamia_attention_workspace_size(&config, &offsets, &bytes) == FLAMIA_OK)
    return 1;
  printf("%s\n", flamia_last_error());
  return 0;
}
