/* The dynamic symbols of a library are in the section .dynsym, their names in the section that it links to. Nothing in
 * the file is believed: each position is checked against the size of the file. */
#include "worker/plugin/plugin_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES_TOLD = 4 };

struct image {
    const char *bytes;
    size_t size;
};

/* A part of the file as an array, NULL when it is not in it, or lies where such an array cannot. */
static const void *part_of(const struct image *image, uint64_t offset, uint64_t count, size_t element)
{
    if (offset > image->size || offset % _Alignof(uint64_t) != 0 || count > (image->size - offset) / element)
        return NULL;
    return image->bytes + offset;
}

static bool image_open(struct image *image, int fd)
{
    char path[64];
    struct stat facts;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int readable = open(path, O_RDONLY | O_CLOEXEC);
    if (readable < 0)
        return false;
    void *bytes = MAP_FAILED;
    if (fstat(readable, &facts) == 0 && facts.st_size > 0)
        bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, readable, 0);
    close(readable);
    if (bytes == MAP_FAILED)
        return false;
    *image = (struct image){.bytes = bytes, .size = (size_t)facts.st_size};
    return true;
}

/* The names that begin with two underscores are the compiler's. */
static bool is_shown(const ElfW(Sym) * symbol, const char *name)
{
    unsigned binding = ELF64_ST_BIND(symbol->st_info), visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    return symbol->st_shndx != SHN_UNDEF && (binding == STB_GLOBAL || binding == STB_WEAK) &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED) && name[0] != '\0' &&
           strncmp(name, "__", 2) != 0 && strcmp(name, "holdfast_plugin") != 0 && strcmp(name, "_init") != 0 &&
           strcmp(name, "_fini") != 0;
}

/* The text at `offset` of a section of texts, "" when it does not end there. */
static const char *text_at(const struct image *image, const ElfW(Shdr) * texts, uint64_t offset)
{
    if (offset >= texts->sh_size || texts->sh_offset > image->size || texts->sh_size > image->size - texts->sh_offset)
        return "";
    const char *text = image->bytes + texts->sh_offset + offset;
    return memchr(text, '\0', texts->sh_size - offset) != NULL ? text : "";
}

static size_t symbols_count(const struct image *image, const ElfW(Shdr) * section, const ElfW(Shdr) * texts,
                            struct buffer *names)
{
    size_t count = section->sh_size / sizeof(ElfW(Sym)), shown = 0;
    const ElfW(Sym) *symbols = part_of(image, section->sh_offset, count, sizeof *symbols);
    for (size_t i = 0; symbols != NULL && i < count; i++) {
        const char *name = text_at(image, texts, symbols[i].st_name);
        if (!is_shown(&symbols[i], name))
            continue;
        if (shown++ < NAMES_TOLD)
            buffer_format(names, "%s%.100s", names->length > 0 ? ", " : "", name);
    }
    return shown;
}

static size_t image_count(const struct image *image, struct buffer *names)
{
    const ElfW(Ehdr) *header = part_of(image, 0, 1, sizeof *header);
    if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_shentsize != sizeof(ElfW(Shdr)))
        return 0;
    const ElfW(Shdr) *sections = part_of(image, header->e_shoff, header->e_shnum, sizeof *sections);
    for (size_t i = 0; sections != NULL && i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < header->e_shnum)
            return symbols_count(image, &sections[i], &sections[sections[i].sh_link], names);
    return 0;
}

size_t plugin_symbols_shown(int fd, struct buffer *names)
{
    struct image image;
    if (!image_open(&image, fd))
        return 0;
    size_t shown = image_count(&image, names);
    munmap((void *)(uintptr_t)image.bytes, image.size);
    return shown;
}
