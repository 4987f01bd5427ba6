from django.urls import path

from shop.views import cart, catalogue

urlpatterns = [path("", catalogue), path("cart/", cart)]
