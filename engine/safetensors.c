/* safetensors.c - the header's JSON, believed only where it fits the file. */
#include "engine/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER_BYTES 100000000u /* the format's own limit */
#define MAX_FILES        4096u      /* shards; 120b has 15 */

struct span { /* the data section of one file */
    const uint8_t *data;
    uint64_t bytes;
    const char *file;
};

static int type_of(const char *name)
{
    for (int t = 0; t < TT_COUNT; t++)
        if (t != TT_Q8_0 && t != TT_MXFP4 && !strcmp(name, tensor_type_name((enum tensor_type)t)))
            return t;
    return -1;
}

static enum err read_shape(const json_t *shape, const char *name, struct tensor *t, struct error *e)
{
    if (!json_is_array(shape)) return err_set(e, ERR_PARSE, "%s: shape is not an array", name);
    if (json_array_size(shape) > TENSOR_MAX_DIMS)
        return err_set(e, ERR_PARSE, "%s: shape has %zu dimensions, at most %d are allowed", name,
                       json_array_size(shape), TENSOR_MAX_DIMS);
    t->n_dims = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < t->n_dims; i++) {
        const json_t *d = json_array_get(shape, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return err_set(e, ERR_PARSE, "%s: dimension %u is not a whole number from 0", name, i);
        t->dims[i] = (uint64_t)json_integer_value(d);
    }
    return ERR_OK;
}

static enum err read_range(const json_t *offsets, const char *name, const struct span *s,
                           struct tensor *t, struct error *e)
{
    const json_t *b = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(b) || !json_is_integer(end))
        return err_set(e, ERR_PARSE, "%s: data_offsets is not two whole numbers", name);
    json_int_t from = json_integer_value(b), to = json_integer_value(end);
    if (from < 0 || to < from || (uint64_t)to > s->bytes)
        return err_set(e, ERR_PARSE, "%s: data_offsets [%lld, %lld] is not inside the %llu bytes",
                       name, (long long)from, (long long)to, (unsigned long long)s->bytes);
    char text[200];
    if (!tensor_bytes(t->type, t->dims, t->n_dims, &t->bytes) || t->bytes != (uint64_t)(to - from))
        return err_set(
            e, ERR_PARSE, "%s: %s %s does not take %lld bytes", name, tensor_type_name(t->type),
            tensor_dims_text(t->dims, t->n_dims, text, sizeof text), (long long)(to - from));
    t->offset = (uint64_t)from;
    t->data = s->data + from;
    return ERR_OK;
}

static enum err read_tensor(const char *name, const json_t *v, const struct span *s,
                            struct tensors *out, struct error *e)
{
    if (!json_is_object(v)) return err_set(e, ERR_PARSE, "%s: is not an object", name);
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    if (!dtype) return err_set(e, ERR_PARSE, "%s: dtype is missing", name);
    int type = type_of(dtype);
    if (type < 0) return err_set(e, ERR_UNSUPPORTED, "%s: dtype %.40s is unknown", name, dtype);
    struct tensor t = {.type = (enum tensor_type)type};
    enum err rc = read_shape(json_object_get(v, "shape"), name, &t, e);
    if (!rc) rc = read_range(json_object_get(v, "data_offsets"), name, s, &t, e);
    return rc ? rc : tensors_add(out, &t, name, strlen(name), e);
}

static enum err read_header(json_t *root, const struct span *s, struct tensors *out,
                            struct error *e)
{
    const char *name;
    json_t *v;
    json_object_foreach(root, name, v)
    {
        if (!strcmp(name, "__metadata__")) continue;
        struct error why = {0};
        enum err rc = read_tensor(name, v, s, out, &why);
        if (rc) return err_set(e, rc, "%s: tensor %s", s->file, why.text);
    }
    return ERR_OK;
}

enum err safetensors_read(const uint8_t *data, size_t size, const char *file, struct tensors *out,
                          struct error *e)
{
    uint64_t n = 0;
    if (size < 8)
        return err_set(e, ERR_PARSE, "%s: %zu bytes are too few for a safetensors file", file,
                       size);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | data[i];
    if (n > MAX_HEADER_BYTES)
        return err_set(e, ERR_PARSE, "%s: a header of %llu bytes is over the limit of %u", file,
                       (unsigned long long)n, MAX_HEADER_BYTES);
    if (n > size - 8)
        return err_set(e, ERR_PARSE, "%s: cut off inside the header (%llu bytes of %llu)", file,
                       (unsigned long long)(size - 8), (unsigned long long)n);
    if (n == 0 || data[8] != '{')
        return err_set(e, ERR_PARSE, "%s: the header does not start with '{'", file);
    json_error_t why;
    json_t *root = json_loadb((const char *)data + 8, (size_t)n, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return err_set(e, ERR_PARSE, "%s: header, byte %d: %s", file, why.position, why.text);
    struct span s = {data + 8 + n, size - 8 - n, file};
    enum err rc = read_header(root, &s, out, e);
    json_decref(root);
    return rc;
}

/* A file name that cannot leave the folder. */
static bool is_plain(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) < 256;
}

static enum err add_file(struct safetensors_index *x, const char *name, uint32_t *index,
                         struct error *e)
{
    for (*index = 0; *index < x->n_files; ++*index)
        if (!strcmp(x->files[*index], name)) return ERR_OK;
    if (x->n_files == MAX_FILES)
        return err_set(e, ERR_RANGE, "names more than %u files", MAX_FILES);
    char **files = realloc(x->files, (x->n_files + 1) * sizeof *files);
    if (files) x->files = files;
    char *copy = files ? strdup(name) : NULL;
    if (!copy) return err_set(e, ERR_NOMEM, "out of memory");
    x->files[x->n_files++] = copy;
    return ERR_OK;
}

static enum err read_map(const json_t *map, struct safetensors_index *x, struct error *e)
{
    if (!json_is_object(map) || json_object_size(map) == 0)
        return err_set(e, ERR_PARSE, "weight_map is missing or empty");
    x->entries = calloc(json_object_size(map), sizeof *x->entries);
    if (!x->entries) return err_set(e, ERR_NOMEM, "out of memory");
    const char *tensor;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, v)
    {
        const char *name = json_string_value(v);
        if (!name || !is_plain(name))
            return err_set(e, ERR_INVAL,
                           "weight_map: %.200s: \"%.80s\" is not a plain file name in the folder",
                           tensor, name ? name : "");
        struct safetensors_entry *entry = &x->entries[x->n_entries];
        enum err rc = add_file(x, name, &entry->file, e);
        if (rc) return rc;
        entry->tensor = strdup(tensor);
        if (!entry->tensor) return err_set(e, ERR_NOMEM, "out of memory");
        x->n_entries++;
    }
    return ERR_OK;
}

enum err safetensors_index_read(const uint8_t *data, size_t size, const char *file,
                                struct safetensors_index *out, struct error *e)
{
    *out = (struct safetensors_index){0};
    if (size > MAX_HEADER_BYTES)
        return err_set(e, ERR_PARSE, "%s: %zu bytes are over the limit of %u", file, size,
                       MAX_HEADER_BYTES);
    json_error_t why;
    json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &why);
    if (!root) return err_set(e, ERR_PARSE, "%s: line %d: %s", file, why.line, why.text);
    struct error inner = {0};
    enum err rc = read_map(json_object_get(root, "weight_map"), out, &inner);
    json_decref(root);
    if (!rc) return ERR_OK;
    safetensors_index_free(out);
    return err_set(e, rc, "%s: %s", file, inner.text);
}

void safetensors_index_free(struct safetensors_index *x)
{
    for (uint32_t i = 0; i < x->n_entries; i++)
        free(x->entries[i].tensor);
    for (uint32_t i = 0; i < x->n_files; i++)
        free(x->files[i]);
    free(x->entries);
    free(x->files);
    *x = (struct safetensors_index){0};
}
