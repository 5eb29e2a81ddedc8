// filter.occatrace.calls, as the plug-in's table of components names it.
#pragma once
#include <babeltrace2/babeltrace.h>

bt_component_class_initialize_method_status calls_initialize(bt_self_component_filter *, bt_self_component_filter_configuration *,
                                                             const bt_value *, void *);
bt_message_iterator_class_initialize_method_status calls_iterator_initialize(bt_self_message_iterator *,
                                                                             bt_self_message_iterator_configuration *,
                                                                             bt_self_component_port_output *);
void calls_iterator_finalize(bt_self_message_iterator *);
bt_message_iterator_class_next_method_status calls_next(bt_self_message_iterator *, bt_message_array_const messages,
                                                        uint64_t capacity, uint64_t *count);
